"""Passes and schedules, run in the real environment on IR small enough to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

MATMUL = """
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""

TILE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %m : (!transform.any_op) -> !transform.any_op
    %1, %2 = transform.structured.tile_using_for %0 tile_sizes [${rows}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
"""

#: exp(log(x)) is x: what canonicalization leaves alone.
CANCEL = """
pdl.pattern @cancel : benefit(1) {
  %t = type
  %x = operand : %t
  %inner = operation "math.log"(%x : !pdl.value) -> (%t : !pdl.type)
  %v = result 0 of %inner
  %outer = operation "math.exp"(%v : !pdl.value) -> (%t : !pdl.type)
  rewrite %outer {
    replace %outer with (%x : !pdl.value)
  }
}
"""


@pytest.fixture
def passes(environments: Any, tmp_path: Path) -> Any:
    count = iter(range(100))

    def perform(
        ir: str, pipeline: str, schedule: str | None = None, *, patterns: str | None = None, **parameters: Any
    ) -> Any:
        files = {"ir": ir, "schedule": schedule, "patterns": patterns}
        return environments.perform(
            "mlir",
            "passes",
            tmp_path / str(next(count)),
            params={"passes": pipeline, "backend": "bindings", "bindings": "torch_mlir", "parameters": parameters},
            inputs={name: text for name, text in files.items() if text is not None},
            outputs={"ir": "out.mlir"},
        )

    return perform


def test_a_schedule_is_run_with_its_parameters_and_is_gone_afterwards(passes: Any) -> None:
    done = passes(MATMUL, "transform-interpreter,canonicalize", TILE, rows=4)
    assert done.ok, done.outcome
    text = done.text("ir")
    assert "step %c4" in text
    assert "tensor<4x8xf32>" in text
    assert "transform" not in text


def test_another_parameter_gives_other_ir(passes: Any) -> None:
    two = passes(MATMUL, "transform-interpreter,canonicalize", TILE, rows=2)
    assert "step %c2" in two.text("ir")


def test_a_schedule_that_no_pass_runs_changes_nothing(passes: Any) -> None:
    assert passes(MATMUL, "cse", TILE, rows=4).text("ir") == passes(MATMUL, "cse").text("ir")


def test_a_schedule_that_fails_is_a_failure_of_the_code_under_test(passes: Any) -> None:
    done = passes(MATMUL, "transform-interpreter", TILE.replace("linalg.matmul", "func.func"), rows=4)
    assert done.outcome["outcome"] == "lower-failed"
    assert "TilingInterface" in done.outcome["diagnostics"]


def test_only_sequences_belong_in_a_schedule(passes: Any) -> None:
    done = passes(MATMUL, "cse", CANCEL)
    assert "the schedule holds pdl.pattern" in done.outcome["reason"]


def test_only_patterns_belong_among_patterns(passes: Any) -> None:
    done = passes(MATMUL, "cse", patterns="func.func private @f()")
    assert "the file of patterns holds func.func" in done.outcome["reason"]


def test_a_broken_schedule_is_named_as_such(passes: Any) -> None:
    done = passes(MATMUL, "cse", "module {")
    assert done.outcome["reason"].startswith("the schedule does not parse")


def test_ir_that_brings_a_schedule_along_is_refused(passes: Any) -> None:
    done = passes(TILE.replace("${rows}", "4"), "cse", TILE, rows=4)
    assert done.outcome["reason"] == "the IR already holds a transform schedule"


def test_patterns_are_applied_before_the_first_pass(passes: Any) -> None:
    source = """
func.func @main(%x: f32) -> f32 {
  %0 = math.log %x : f32
  %1 = math.exp %0 : f32
  return %1 : f32
}
"""
    assert passes(source, "canonicalize,cse").text("ir").count("math.") == 2
    assert "math." not in passes(source, "canonicalize,cse", patterns=CANCEL).text("ir")


def test_a_pass_that_cannot_gives_its_diagnostics_with_notes(passes: Any) -> None:
    source = """
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
"""
    done = passes(source, "func.func(stablehlo-legalize-to-linalg),torch-verify-linalg-on-tensors-backend-contract")
    assert done.outcome["outcome"] == "lower-failed"
    assert done.outcome["reason"] == "no pattern converts 'stablehlo.sort' (dimension = 0) on tensor<4x2xf32>"
    assert "note: see current operation" in done.outcome["diagnostics"]


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("torch.aten.cumprod %x, %1, %none : {0}, !torch.int, !torch.none -> {0}", "'torch.aten.cumprod' (dim = 1)"),
        (
            'torch.operator "torch.aten.odd"(%x, %3, %2) : ({0}, !torch.list<int>, !torch.bool) -> {0}',
            "'torch.aten.odd' (operand 1 = [1, 1], operand 2 = true)",
        ),
        (
            'torch.operator "torch.aten.odd"(%x, %4, %2) : ({0}, !torch.list<int>, !torch.bool) -> {0}',
            "'torch.aten.odd' (operand 1 is not constant, operand 2 = true)",
        ),
    ],
)
def test_a_constant_that_is_left_is_the_fault_of_its_user(passes: Any, operation: str, reason: str) -> None:
    kind = "!torch.vtensor<[4,8],f32>"
    source = f"""
func.func @main(%x: {kind}, %n: !torch.int) -> {kind} {{
  %1 = torch.constant.int 1
  %2 = torch.constant.bool true
  %none = torch.constant.none
  %3 = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %4 = torch.prim.ListConstruct %1, %n : (!torch.int, !torch.int) -> !torch.list<int>
  %5 = {operation.format(kind)}
  return %5 : {kind}
}}
"""
    done = passes(source, "torch-backend-to-stablehlo-backend-pipeline")
    assert "torch.constant." in done.outcome["diagnostics"].splitlines()[0]
    assert done.outcome["reason"] == f"no pattern converts {reason} on {kind}"


def test_operands_of_a_dialect_without_bindings_have_no_names(passes: Any) -> None:
    source = """
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x1xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %y = stablehlo.pad %x, %one, low = [0, -1], high = [0, 0], interior = [0, 0] : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}
"""
    done = passes(source, "torch-verify-linalg-on-tensors-backend-contract")
    assert "operand 1 = 1.0" in done.outcome["reason"]
    assert "opview" not in done.outcome["reason"]


def test_a_pipeline_may_be_written_over_several_lines(passes: Any) -> None:
    assert passes(MATMUL, "canonicalize,\n  func.func(\n  convert-linalg-to-loops)").outcome["outcome"] == "ok"


def test_the_bytes_repeat(passes: Any) -> None:
    first = passes(MATMUL, "transform-interpreter,canonicalize", TILE, rows=4).read("ir")
    assert passes(MATMUL, "transform-interpreter,canonicalize", TILE, rows=4).read("ir") == first


def test_what_a_kind_does_not_have_is_named_with_its_place(environments: Any, tmp_path: Path) -> None:
    done = environments.perform(
        "mlir",
        "passes",
        tmp_path,
        params={
            "passes": "cse",
            "backend": "bindings",
            "bindings": "torch_mlir",
            "contract": {"kind": "loops", "allow": ["func.*", "linlag.*"], "main": "tensor"},
        },
        inputs={"ir": MATMUL},
        outputs={"ir": "out.mlir"},
    )
    assert done.outcome["reason"] == ("left 1 operation that kind loops does not have: linalg.matmul at in/ir:3:8")
    assert "no such dialect: linalg?" in done.outcome["diagnostics"]
