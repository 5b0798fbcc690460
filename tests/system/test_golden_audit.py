"""Audits over real kernels: a tolerance that is as it should be, and one of somebody's that lets miscompiles through."""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.schema.export import adapter
from support.downstream import AXPY, Downstream
from support.workspace import Workspace

#: y = 2a + b on a few rows, in two steps; the tolerance is the catalog's own affair.
DOCUMENT = """\
description: y = 2a + b.
dims: {R: 7, C: 33}
inputs:
  a: {shape: [R, C], dtype: f32, formula: "normal(0, 1)", seed: 1}
  b: {shape: [R, C], dtype: f32, formula: "uniform(-1, 1)", seed: 2}
outputs:
  y: {shape: [R, C], dtype: f32}
"""
TOLERANCES = """\
layers:
  - {{atol: {atol}, rtol: {rtol}, rationale: One addition.}}
"""


REFERENCE = "def reference(a, b):\n    return 2 * a + b\n"


def axpy(folder: Path, atol: str, rtol: str, reference: str = REFERENCE) -> Path:
    catalog = Downstream(folder)
    catalog.workload("axpy", document=DOCUMENT, reference=reference, linalg=AXPY)
    catalog.write("golden/axpy/tolerances.yaml", TOLERANCES.format(atol=atol, rtol=rtol))
    return catalog.root


def test_the_repositorys_own_tolerances_catch_what_matters(workspace: Workspace) -> None:
    done = workspace(
        "golden", "audit", "mlir/linalg-loops/x86_64/{softmax,matmul_i8}", "--seeds", "2", "--format", "json"
    )
    assert done.code == 0, done.stdout + done.stderr
    document = done.document
    assert document["schema"] == "mlir-matrix/audit/v1"
    adapter("audit").validate_python(document)
    summary = document["summary"]
    assert summary["planted"] == summary["mattered"] + summary["not_mattering"]
    assert summary["caught"] >= 0.99 * summary["mattered"] > 100
    assert (summary["allowed_flagged"], summary["weak"], document["beyond_bound"]) == (0, 0, [])
    assert summary["allowed"] == 2 * (1 + 3) + 2 * (1 + 1), (
        "softmax has three liberties, matmul_i8 one, each its plain kernel"
    )
    softmax = next(test for test in document["tests"] if test["workload"] == "softmax")
    mutations = {mutation["mutation"]: mutation for mutation in softmax["mutations"]}
    for name in ("drop-last-iteration", "swap-operands", "narrow-accumulator-bf16", "wrong-constant", "output-scaled"):
        assert mutations[name]["caught"] == mutations[name]["mattered"] > 0, name
    assert "searching sites for mutations" in done.stderr


def test_a_tolerance_that_is_too_loose_is_shown_to_be(workspace: Workspace, tmp_path: Path) -> None:
    catalog = axpy(tmp_path / "loose", "1.0e-2", "0")
    command = ("golden", "audit", "mlir/linalg-loops/x86_64/axpy", "--seeds", "2", "--catalog", catalog)
    done = workspace(*command, "--format", "json")
    assert done.code == 1
    document = done.document
    layer = f"{catalog}/golden/axpy/tolerances.yaml:2:5"
    assert [slack["layer"] for slack in document["slack"]] == [layer]
    adapter("audit").validate_python(document)
    missed = {miss["mutation"] for miss in document["misses"]}
    assert {"output-flip-bit-4", "output-flip-bit-8", "output-scaled", "output-rounded-to-bf16"} & missed
    for miss in document["misses"]:
        assert miss["bound"] < miss["error"] <= 1e-2
        assert (miss["layer"], miss["atol"], miss["rtol"]) == (layer, "0.01", "0")
    told = workspace(*command)
    assert told.code == 1
    for words in ("slack", "missed", "let through by", "caught ("):
        assert words in told.stdout


def test_the_same_program_with_a_derived_one_is_sound(workspace: Workspace, tmp_path: Path) -> None:
    catalog = axpy(tmp_path / "right", "0", "eps(f32) / 2")
    done = workspace("golden", "audit", "mlir/linalg-loops/x86_64/axpy", "--seeds", "2", "--catalog", catalog)
    assert done.code == 0, done.stdout
    assert "axpy" in done.stdout
    assert "missed," not in done.stdout


def test_a_reference_that_gives_no_bound_is_no_proof(workspace: Workspace, tmp_path: Path) -> None:
    """Nothing is caught by that: the test is not audited, and says why."""
    reference = "import numpy as np\n\n\ndef reference(a, b):\n    return 2 * np.fft.ifft(np.fft.fft(a)).real + b\n"
    catalog = axpy(tmp_path / "unknown", "0", "4 * eps(f32)", reference)
    command = ("golden", "audit", "mlir/linalg-loops/x86_64/axpy", "--seeds", "1", "--catalog", catalog)
    done = workspace(*command, "--format", "json")
    assert done.code == 2
    assert done.document["tests"] == []
    (failed,) = done.document["not_audited"]
    assert "expected outputs and their bounds cannot be computed" in failed["reason"]
    assert failed["reason"] in workspace(*command).stdout


def test_what_is_wrong_as_it_is_proves_nothing(workspace: Workspace) -> None:
    """torch-mlir's constant is wrong: every mutant of this test would be caught."""
    done = workspace("golden", "audit", "pytorch/linalg-loops/x86_64/gelu_tanh", "--seeds", "1", "--format", "json")
    assert done.code == 1
    document = done.document
    adapter("audit").validate_python(document)
    assert document["tests"] == []
    assert document["flagged"][0]["mutation"] == "unmutated"
    assert document["not_audited"][0]["reason"].startswith("it does not pass without a mutation: y: ")


def test_mutations_are_chosen_by_name(workspace: Workspace) -> None:
    test = "mlir/linalg-loops/x86_64/transpose"
    done = workspace("golden", "audit", test, "--seeds", "1", "--mutations", "output-s*", "--format", "json")
    assert done.code == 0
    (found,) = done.document["tests"]
    assert {mutation["mutation"] for mutation in found["mutations"]} == {
        "output-scaled",
        "output-shifted",
        "output-sign",
    }
    done = workspace("golden", "audit", test, "--mutations", "output-sing")
    assert done.code == 2
    assert "did you mean" in done.stderr
    done = workspace("golden", "audit", test, "--seeds", "1", "--mutations", "output-flip-bit-top")
    assert done.code == 2
    assert "nothing was planted" in done.stderr


def test_a_target_that_links_no_kernels_is_audited(workspace: Workspace) -> None:
    done = workspace("golden", "audit", "mlir/linalg-loops/x86_64-jit/matmul@llvm=19", "--seeds", "2")
    assert done.code == 0, done.stderr
    assert "0 mutants of the IR" in done.stderr
