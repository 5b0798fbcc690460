"""IR tests under several releases of one component, and FileCheck's outcome in a test and in a pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.downstream import NAMED, TURNS, Downstream
from support.workspace import Workspace

SUITE = """\
description: d
blocks:
  - steps: [turns]
    pins: {llvm: ["17", "19", "22"]}
exclude:
  - {tests: ["**/other@llvm=22"], reason: It is slow.}
expect:
  - {tests: ["mlir/turns/ir/named@llvm=22"], outcome: mismatch, reason: Nothing is named any more.}
"""
PIPELINE = """\
description: d
entry: {linalg: []}
steps: [no-loops, bufferize, linalg-to-loops, loops-to-llvm, object]
"""
DOUBLE = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "theirs")
    made.write("recipes/steps/turns/step.yaml", TURNS)
    made.write("recipes/steps/turns/tests/named.mlir", NAMED)
    made.write("recipes/steps/turns/tests/other.mlir", NAMED.replace("%x", "%a"))
    made.write("matrix/suites/turning.yaml", SUITE)
    return made


def test_one_command_runs_a_case_over_releases(workspace: Workspace, catalog: Downstream) -> None:
    report = workspace.run("mlir/turns/ir/named@llvm={17,19,22}", catalog=catalog.root, code=1)
    assert report.outcomes == {
        "mlir/turns/ir/named@llvm=17": "unsupported",
        "mlir/turns/ir/named@llvm=19": "pass",
        "mlir/turns/ir/named@llvm=22": "mismatch",
    }
    unsupported = report.tests["mlir/turns/ir/named@llvm=17"]["reason"]
    assert unsupported.startswith("step turns has no variant for llvm 17.0.6; it has variants for llvm >=22; llvm >=18")
    assert report.tests["mlir/turns/ir/named@llvm=19"]["pins"]["llvm"] == "19.1.7"
    assert report.tests["mlir/turns/ir/named@llvm=19"]["reason"] == "FileCheck of llvm 19.1.7"
    wrong = report.tests["mlir/turns/ir/named@llvm=22"]
    assert wrong["reason"].startswith("FileCheck of llvm 22.1.8: the IR does not match line 1 of the directives")
    assert wrong["position"] == f"{catalog.root}/recipes/steps/turns/tests/named.mlir:1:11"
    plan = json.loads(
        workspace("plan", "mlir/turns/ir/*@llvm=1[89]", "--catalog", catalog.root, "--format", "json").stdout
    )
    steps = {each["environment"] for each in plan["actions"] if each["kind"] == "passes"}
    assert steps == {"mlir@llvm=18.1.8", "mlir@llvm=19.1.7"}


def test_a_suite_varies_releases_of_ir_tests(workspace: Workspace, catalog: Downstream) -> None:
    report = workspace.run("turning", catalog=catalog.root)
    assert report.surprises() == set()
    assert report.tests["mlir/turns/ir/named@llvm=22"]["outcome"] == "mismatch"
    assert "mlir/turns/ir/other@llvm=22" not in report.tests
    told = workspace("explain", "mlir/turns/ir/named@llvm=22.1.8", "--catalog", catalog.root).stdout
    assert "expects mismatch · Nothing is named any more." in told
    assert "turns/step.yaml:6:5, because llvm is 22.1.8" in told
    one = workspace.run("turning", "**/named@llvm=19", catalog=catalog.root)
    assert one.outcomes == {"mlir/turns/ir/named@llvm=19": "pass"}


def test_filecheck_has_one_outcome_wherever_it_fails(workspace: Workspace, catalog: Downstream) -> None:
    """A pipeline that checks the IR, and the program never runs; that failure may be expected."""
    catalog.workload("double", linalg=DOUBLE)
    check = "description: d\ntool: check\nenvironment: filecheck\naccepts: [linalg]\ndirectives: no.check\n"
    catalog.write("recipes/steps/no-loops/step.yaml", check)
    catalog.write("recipes/steps/no-loops/no.check", "// CHECK: scf.for\n")
    catalog.write("recipes/pipelines/checked.yaml", PIPELINE)
    test = "mlir/checked/x86_64/double"
    expect = f"expect: [{{tests: ['{test}'], outcome: mismatch, reason: r}}]\n"
    catalog.write("matrix/suites/checked.yaml", f"description: d\ninclude: ['{test}']\n{expect}")
    result = workspace.run(test, catalog=catalog.root, code=1).tests[test]
    assert (result["outcome"], result["stage"]) == ("mismatch", "judge")
    assert result["reason"].startswith("no-loops: the IR does not match line 1 of the directives")
    assert workspace.run("checked", catalog=catalog.root).surprises() == set()
