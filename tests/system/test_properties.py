"""Properties find what no golden does: programs that are wrong in the same way as their reference."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from support.downstream import Downstream, npy
from support.workspace import Report, Workspace

DOCUMENT = """\
description: Somebody's program.
dims: {B: 4}
inputs:
  x: {shape: [B], dtype: f32, formula: iota()}
outputs:
  y: {shape: [B], dtype: f32}
"""
#: Both are what their references say, and neither is what the suite says.
SOURCES = {"shifted": "x * 2 + 1", "centred": "x - x.mean()"}
GOLDENS = {"shifted": [1, 3, 5, 7], "centred": [-1.5, -0.5, 0.5, 1.5]}
SUITE = """\
description: What must hold.
blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64], workload: [shifted, centred]}}]
properties:
  - {name: linear, tests: ["**"], scaling: {inputs: {x: 2}, outputs: {y: 2}}, reason: It is linear.}
  - {name: rows, tests: ["**"], batch: {dim: B}, reason: Rows do not see each other.}
  - {name: same, tests: ["**/shifted"], same-ir: {framework: pytorch, at: linalg}, reason: It is one program.}
"""
CELL = "jax/linalg-loops/x86_64"
FAILS = {f"{CELL}/shifted~linear", f"{CELL}/centred~rows", f"{CELL}/shifted~same"}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Downstream(tmp_path_factory.mktemp("laws"))
    for name, source in SOURCES.items():
        made.workload(
            name, document=DOCUMENT, reference=f"def reference(x):\n    return {source}\n",
            jax=f"def workload(x):\n    return {source}\n", pytorch=f"def workload(x):\n    return 1 + ({source}) - 1\n",
        )  # fmt: skip
        made.write(f"golden/{name}/y.npy", npy(np.array(GOLDENS[name], dtype=np.float64)))
    made.write("matrix/suites/laws.yaml", SUITE)
    return made.root


@pytest.fixture(scope="module")
def report(workspace: Workspace, catalog: Path) -> Report:
    return workspace.run("laws", code=1, catalog=catalog)


def test_each_property_is_a_test(report: Report) -> None:
    assert report.surprises() == FAILS
    assert {name: report.outcomes[name] for name in FAILS} == dict.fromkeys(FAILS, "mismatch")
    assert report.outcomes[f"{CELL}/shifted"] == report.outcomes[f"{CELL}/centred"] == "pass", "their goldens say so"
    assert report.outcomes[f"{CELL}/shifted~rows"] == report.outcomes[f"{CELL}/centred~linear"] == "pass"
    test = report.tests[f"{CELL}/shifted~linear"]
    assert (test["workload"], test["property"]) == ("shifted", "linear")


def test_what_does_not_hold_is_said(report: Report) -> None:
    linear = report.tests[f"{CELL}/shifted~linear"]
    assert linear["reason"].startswith(
        "expected: x times 2 gives y times 2, exactly; found: y: 4 of 4 elements (100 %) are wrong"
    )
    assert linear["verdict"]["outputs"][0]["worst"][0]["used"] == "inf"
    rows = report.tests[f"{CELL}/centred~rows"]
    assert rows["reason"].startswith("expected: a batch along B gives what its halves give, exactly; found: y: ")
    same = report.tests[f"{CELL}/shifted~same"]
    assert same["reason"].startswith(
        "expected: the IR at linalg is that of pytorch/linalg-loops/x86_64; found: the IR differs in "
    )
    assert same["diagnostics"].startswith("--- pytorch/linalg-loops/x86_64\n+++ this\n")


def test_what_is_kept_and_how_it_is_repeated(workspace: Workspace, report: Report, catalog: Path) -> None:
    assert report.tests
    done = workspace("run", "laws", "--catalog", catalog, "--quiet", "--verbose")
    assert done.code == 1
    assert f"tools/matrix run --catalog {catalog} laws '{CELL}/shifted~linear'" in done.stdout
    folder = workspace.failure(f"{CELL}/shifted~same")
    assert (folder / "diagnostics.txt").read_text().startswith("--- pytorch/")
    assert json.loads((folder / "result.json").read_text())["property"] == "same"
    script = workspace.failure(f"{CELL}/centred~rows") / "repeat.sh"
    again = subprocess.run(
        ["sh", str(script)],
        env={**os.environ, **workspace.env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert again.returncode == 1, again.stderr
    assert "1 test: 1 mismatch" in again.stdout


def test_ci_systems_see_it(workspace: Workspace, report: Report, catalog: Path) -> None:
    path = workspace.home / "laws.xml"
    assert workspace("run", "laws", "--catalog", catalog, "--junit", path, "--quiet").code == 1
    names = {case.get("name") for case in ElementTree.parse(path).getroot().iter("testcase")}
    assert names == {name.rsplit("/", 1)[1] for name in report.tests}


def test_a_property_can_be_asked_for_and_explained(workspace: Workspace, report: Report, catalog: Path) -> None:
    assert report.tests
    found = workspace.run("**~rows", code=1, catalog=catalog)
    assert {f"{CELL}/centred~rows", f"{CELL}/shifted~rows"} <= found.tests.keys()
    text = workspace("explain", f"{CELL}/shifted~same", "--catalog", catalog).stdout
    assert "Property: the IR at linalg is that of pytorch/linalg-loops/x86_64" in text
    assert "Compared with pytorch/linalg-loops/x86_64/shifted" in text


def test_our_own_hold(workspace: Workspace) -> None:
    report = workspace.run("properties")
    assert len(report.tests) > 200
    assert set(report.outcomes.values()) == {"pass"}
