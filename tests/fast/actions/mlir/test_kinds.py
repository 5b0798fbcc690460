"""IR against the contract of its kind: what is said of IR that breaks it; what cannot be decided is no failure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from mlir_matrix.actions.contract import METRICS, ActionFailed
from mlir_matrix.actions.mlir import generic_form, kinds
from mlir_matrix.actions.params import Contract, MainForm, TypeWord

pytestmark = pytest.mark.usefixtures("in_tmp_path")

#: As mlir-opt of LLVM 22 prints it with --mlir-print-op-generic, --mlir-print-debuginfo and --mlir-print-local-scope.
GENERIC = """\
"builtin.module"() ({
  "func.func"() <{function_type = (memref<4xf32>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: memref<4xf32> loc("in/ir.mlir":1:17)):
    %0 = "arith.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> vector<4xf32> loc("in/ir.mlir":2:8)
    "linalg.fill"(%1, %arg0) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg1: f32 loc("in/ir.mlir":3:3), %arg2: f32 loc("in/ir.mlir":3:3)):
      "linalg.yield"(%arg1) : (f32) -> () loc("in/ir.mlir":3:3)
    }) : (f32, memref<4xf32>) -> () loc("in/ir.mlir":3:3)
    "linalg.generic"(%arg0) <{text = "}) : (tensor<9xf32>)"}> ({
    ^bb0(%arg1: f32 loc(unknown)):
      "linalg.yield"(%arg1) : (f32) -> () loc(unknown)
    }) {a = 1 : i64} : (memref<4xf32>) -> () loc(callsite("in/ir.mlir":5:3 at "x.py":1:1))
    "linalg.copy"(%arg0, %arg0) : (memref<4xf32>, memref<4xf32>) -> () loc(unknown)
    "linalg.fill"(%arg0) : (memref<4xf32, strided<[2]>>) -> () loc("in/ir.mlir":7:3)
    "func.return"() : () -> () loc("in/ir.mlir":8:3)
  }) : () -> () loc("in/ir.mlir":1:1)
}) : () -> () loc("in/ir.mlir":0:0)
"""
CUSTOM = """\
module {
  func.func @main(%arg0: memref<4xf32>) {
    %cst = arith.constant dense<1.0> : vector<4xf32>
  }
}
"""


@dataclass
class Fake:
    """IR whose generic form is known."""

    generic: str = GENERIC
    changed: str = CUSTOM
    counted: bool = True

    def operations(self) -> Mapping[str, int] | None:
        return Counter(each.name for each in generic_form.operations(self.generic)) if self.counted else None

    def located(self) -> str:
        return self.generic

    def after(self, passes: str) -> str:
        if passes == "fail":
            raise ActionFailed("the pass pipeline does not parse")
        return self.changed

    def has_dialect(self, name: str) -> bool:
        return name != "linlag"


def broken(contract: Contract, text: str = CUSTOM, fake: Fake | None = None) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        kinds.hold(contract, text, fake or Fake())
    return caught.value


def test_operations_of_no_kind_are_counted_and_placed() -> None:
    error = broken({"kind": "loops", "forbid": ["linalg.*"]})
    assert error.reason == (
        "left 4 operations that kind loops does not have: 2 linalg.fill (first at in/ir.mlir:3:3), "
        "linalg.generic at line 5, linalg.copy"
    )
    assert error.diagnostics.splitlines()[-1] == "linalg.fill at in/ir.mlir:7:3"


def test_what_is_not_allowed_is_refused_and_a_dialect_of_no_release_named() -> None:
    error = broken({"kind": "k", "allow": ["func.*", "arith.constant", "linlag.*", "linalg.fill"]})
    assert error.reason.startswith(
        "left 3 operations that kind k does not have: linalg.yield at in/ir.mlir:3:3, linalg"
    )
    assert error.diagnostics.endswith("the contract allows linlag.*, and this release has no such dialect: linalg?\n")


def test_the_numbers_of_operations_are_a_metric() -> None:
    kinds.hold({"kind": "k"}, CUSTOM, Fake())
    counts = json.loads(Path(METRICS).read_text())["operations"]
    assert counts["linalg.fill"] == 2
    assert [*counts] == sorted(counts)


@pytest.mark.parametrize(
    ("word", "text", "reason"),
    [
        ("vector", CUSTOM, "left 1 operation with types that kind k does not have: arith.constant on vector<4xf32>"),
        ("memref", CUSTOM, "left 5 operations with types that kind k does not have: func.func on memref<4xf32> at"),
        ("memref-layout", CUSTOM, "linalg.fill on memref<4xf32, strided<[2]>> at in/ir.mlir:7:3"),
    ],
)
def test_types_are_refused(word: str, text: str, reason: str) -> None:
    assert reason in broken({"kind": "k", "types": [word]}, text).reason


def test_a_type_of_an_attribute_or_in_a_string_is_none() -> None:
    kinds.hold({"kind": "k", "types": ["tensor", "unranked", "!torch.tensor"]}, f"{CUSTOM}tensor<4xf32>", Fake())


def test_what_cannot_be_counted_is_not_refused() -> None:
    kinds.hold({"kind": "k", "allow": ["func.*"]}, CUSTOM, Fake(counted=False))


@pytest.mark.parametrize(
    ("form", "signature", "wrong"),
    [
        ("memref", "(%arg0: memref<4x?xf32>, %arg1: memref<f32>) -> (memref<2xcomplex<f32>>, memref<?xi1>) {", ""),
        (
            "memref",
            "(%arg0: memref<4xf32> {bufferization.writable = false}) -> memref<4xf32> attributes {a = 1 : i64} {",
            "",
        ),
        (
            "memref",
            "(%arg0: memref<4xf32, strided<[?], offset: ?>>) {",
            "an argument of memref<4xf32, strided<[?], offset: ?>>",
        ),
        ("memref", "(%arg0: memref<4xf32>) -> tensor<4xf32> {", "a result of tensor<4xf32>"),
        ("memref", "(%arg0: memref<*xf32>) {", "an argument of memref<*xf32>"),
        ("tensor", "(%arg0: tensor<4x?xf32>, %arg1: tensor<complex<f32>>) -> (tensor<f32>) {", ""),
        ("tensor", "() {", ""),
        ("tensor", "(%arg0: tensor<4xf32, #sparse>) {", "an argument of tensor<4xf32, #sparse>"),
        ("tensor", "(%arg0: f32) {", "an argument of f32; in kind k each is a ranked tensor"),
        ("vtensor", "(%arg0: !torch.vtensor<[4,?],f32>) -> !torch.vtensor<[],si64> {", ""),
        ("vtensor", "(%arg0: !torch.tensor) {", "an argument of !torch.tensor"),
    ],
)
def test_main_has_the_form_of_its_kind(form: MainForm, signature: str, wrong: str) -> None:
    contract: Contract = {"kind": "k", "main": form}
    text = f"module {{\n  func.func @other(%a: i1)\n  func.func @main{signature}\n"
    if wrong:
        assert wrong in broken(contract, text).reason
    else:
        kinds.hold(contract, text, Fake())


def test_main_is_missed() -> None:
    assert "there is no func.func @main" in broken({"kind": "k", "main": "tensor"}, "module {\n}\n").reason


def test_a_c_interface_is_a_function_with_a_body() -> None:
    contract: Contract = {"kind": "llvm", "main": "c-interface"}
    declared = "  llvm.func @_mlir_ciface_main(!llvm.ptr)\n"
    assert "no llvm.func @_mlir_ciface_main" in broken(contract, declared).reason
    for line in (
        "llvm.func @_mlir_ciface_main(%arg0: !llvm.ptr) {",
        "llvm.func internal @_mlir_ciface_main() attributes {a} {",
    ):
        kinds.hold(contract, f"module {{\n  {line}\n", Fake())


@pytest.mark.parametrize(
    ("passes", "changed", "reason"),
    [
        ("cse", "module {\n}\n", "the IR is not in the canonical form of kind k: cse changes it"),
        ("fail", CUSTOM, "the IR is not in the canonical form of kind k: fail: the pass pipeline does not parse"),
    ],
)
def test_canonical_passes_change_nothing(passes: str, changed: str, reason: str) -> None:
    kinds.hold({"kind": "k", "canonical": ["cse"]}, CUSTOM, Fake())
    assert broken({"kind": "k", "canonical": [passes]}, CUSTOM, Fake(changed=changed)).reason == reason


def test_every_word_of_contracts_is_known() -> None:
    assert {*kinds.TYPES} == {*get_args(TypeWord)}
    assert {*kinds.FORMS} == {*get_args(MainForm)}
