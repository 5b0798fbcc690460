"""Kernels by MLIR's own runner, under its old name and its new one: the same recipes, the same inputs, the same verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.downstream import Downstream
from support.workspace import Workspace

#: The runner was renamed in between.
RELEASES = ("19", "22")
WORKLOADS = ("dot", "exp", "mlp_dynamic", "topk")
CRASHES = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %far = arith.constant 1000000000000 : index
  %zero = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %n = tensor.extract %x[%zero] : tensor<4xf32>
  %i = arith.fptosi %n : f32 to i64
  %k = arith.index_cast %i : i64 to index
  %at = arith.addi %far, %k : index
  %y = tensor.insert %one into %x[%at] : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


#: Calls what there is nowhere.
UNKNOWN = """\
func.func private @nobody(f32) -> f32
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.extract %x[%zero] : tensor<4xf32>
  %m = func.call @nobody(%n) : (f32) -> f32
  %y = tensor.insert %m into %x[%zero] : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, environments: Any) -> str:
    """A release whose programs are here."""
    for name in ("mlir", "zig"):
        environments.require(f"{name}@llvm={request.param}" if name == "mlir" else name)
    return str(request.param)


def test_both_routes_end_well_and_differ_in_the_way_of_running_alone(workspace: Workspace, release: str) -> None:
    names = ",".join(WORKLOADS)
    report = workspace.run(f"mlir/linalg-loops/x86_64{{,-jit}}/{{{names}}}", "--pin", f"llvm={release}")
    assert report.outcomes == {
        f"mlir/linalg-loops/{target}/{name}": "pass" for target in ("x86_64", "x86_64-jit") for name in WORKLOADS
    }


def test_what_the_plan_runs(workspace: Workspace) -> None:
    actions = {
        release: workspace.plan("mlir/linalg-loops/x86_64-jit/dot", "--pin", f"llvm={release}")["actions"]
        for release in RELEASES
    }
    for release, made in actions.items():
        (run,) = (action for action in made if action["stage"] == "run")
        assert (run["kind"], run["native"]) == ("run_jit", True)
        assert run["environment"].startswith(f"mlir@llvm={release}.")
        assert run["params"]["parameters"] == {"opt-level": 2}
        (compiled,) = (action for action in made if action["kind"] == "compile_jit")
        assert (compiled["stage"], compiled["native"], compiled["environment"]) == ("codegen", True, run["environment"])
        assert not [action for action in made if action["kind"] == "link"]


def test_by_default_there_is_no_runner(workspace: Workspace) -> None:
    done = workspace("run", "mlir/linalg-loops/x86_64-jit/dot")
    assert done.code == 2
    assert "target x86_64-jit runs kernels by programs of a release, but llvm 24.0.0+torch-mlir." in done.stderr
    assert "has only Python bindings; pin another release" in done.stderr


def test_failures_are_the_same_by_linking_and_in_memory(
    fresh: Callable[[str], Workspace], tmp_path: Path, release: str
) -> None:
    """A crash is the kernel's; what cannot be compiled fails at the same stage, with the same words."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("crashes", linalg=CRASHES)
    catalog.workload("unknown", linalg=UNKNOWN)
    tests = "mlir/linalg-loops/x86_64{,-jit}/{crashes,unknown}"
    report = fresh("home").run(tests, "--pin", f"llvm={release}", code=1, catalog=catalog.root)
    told = {
        # The step has another name.
        name: (test["outcome"], test["stage"], re.sub(r"^(link|compile): ", "", test["reason"]))
        for name, test in report.tests.items()
    }
    assert len(told) == 4
    for workload in ("crashes", "unknown"):
        assert told[f"mlir/linalg-loops/x86_64/{workload}"] == told[f"mlir/linalg-loops/x86_64-jit/{workload}"]
    assert told["mlir/linalg-loops/x86_64/crashes"][:2] == ("crashed", "run")
    outcome, stage, reason = told["mlir/linalg-loops/x86_64/unknown"]
    assert (outcome, stage) == ("codegen-failed", "codegen")
    assert "nobody, which neither the driver nor libm has" in reason
