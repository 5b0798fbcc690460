"""``matrix report support``: what is run, read and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlir_matrix.plan.session import open_session, select_tests
from mlir_matrix.schema.export import adapter
from mlir_matrix.support.imports import cached_operators
from support.workspace import Workspace

TESTS = "pytorch/{tosa,linalg}-loops/x86_64/{mlp,topk}"


def support(workspace: Workspace, *arguments: str | Path) -> Any:
    done = workspace("report", "support", *arguments, "--format", "json", "--quiet")
    assert done.code == 0, done.stderr
    document = json.loads(done.stdout)
    adapter("support").validate_python(document)
    return document


def test_workloads_and_operators(workspace: Workspace, tmp_path: Path) -> None:
    document = support(workspace, TESTS, "jax/tosa-loops/x86_64/m[l]p")
    answers = {entry["test"]: entry["answer"] for entry in document["entries"]}
    assert answers == {
        "pytorch/tosa-loops/x86_64/mlp": "yes", "pytorch/tosa-loops/x86_64/topk": "fails",
        "pytorch/linalg-loops/x86_64/mlp": "yes", "pytorch/linalg-loops/x86_64/topk": "yes",
        "jax/tosa-loops/x86_64/mlp": "cannot",
    }  # fmt: skip
    results = tmp_path / "results.json"
    workspace.run(TESTS, "--results", results)
    assert support(workspace, "--results", results)["entries"] == [
        entry for entry in document["entries"] if entry["framework"] == "pytorch"
    ]
    found = support(workspace, TESTS, "--operator", "sort", "--operator", "aten.mm")["entries"]
    assert {(entry["name"], entry["pipeline"]): (entry["answer"], entry["test"]) for entry in found} == {
        ("torch.aten.mm", "tosa-loops"): ("yes", "pytorch/tosa-loops/x86_64/mlp"),
        ("torch.aten.mm", "linalg-loops"): ("yes", "pytorch/linalg-loops/x86_64/mlp"),
        ("torch.aten.sort", "tosa-loops"): ("fails", "pytorch/tosa-loops/x86_64/topk"),
        ("torch.aten.sort", "linalg-loops"): ("yes", "pytorch/linalg-loops/x86_64/topk"),
    }
    # A site has the operators of what was imported, and imports nothing.
    session = replace(open_session(), home=workspace.folders)
    contained = cached_operators(session, select_tests(session, [TESTS]))
    assert contained.keys() == {entry["test"] for entry in document["entries"] if entry["framework"] == "pytorch"}
    assert "torch.aten.sort" in contained["pytorch/tosa-loops/x86_64/topk"]
    elsewhere = replace(session, home=Workspace(tmp_path / "home").folders)
    assert cached_operators(elsewhere, select_tests(session, [TESTS])) == {}


def test_what_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    broken = tmp_path / "results.json"
    broken.write_text("{}")
    for arguments, message in (
        ((TESTS, "--operator", "aten.sorted"), "no selected test has this operator; did you mean 'aten.sort'?"),
        (("--results", broken), "schema: None; expected mlir-matrix/results/v1; written by: matrix run --results FILE"),
        (("--results", broken, "--by", "operator"), "--results has no operators"),
        (("mlir/bufferize/ir/*",), "only IR tests of steps, which are on no path"),
    ):
        done = workspace("report", "support", *arguments, "--quiet")
        assert (done.code, done.stdout) == (2, "")
        assert message in done.stderr
