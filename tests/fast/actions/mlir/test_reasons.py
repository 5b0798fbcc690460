"""Sentences on recorded errors of MLIR; that of a module runs where torch-mlir is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.actions.mlir import reasons

#: Of torch-mlir 20261001, LLVM 15.0.6 and 17.0.6; the IR is what the passes were given.
CONVOLUTION = (
    "failed to legalize operation 'torch.aten.convolution' that was explicitly marked illegal: "
    '%10 = "torch.aten.convolution"(%arg0, %arg1, %4) : (!torch.vtensor<[1,4,8,8],f32>, !torch.vtensor<[4,4,3,3],f32>, '
    "!torch.none) -> !torch.vtensor<[1,8,19,19],f32>"
)
SORT = """\
in/ir.mlir:2:10: error: failed to legalize operation 'stablehlo.sort': %2:2 = "stablehlo.sort"(%arg0, %1) <{dimension = 1 : i64, \
is_stable = false}> ({...}) : (tensor<4x8xf32>, tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  %v, %i = torch.aten.topk %arg0, %int3
           ^
in/ir.mlir:2:10: note: see current operation:
"""
CAST = """\
in/ir.mlir:4:8: error: failed to legalize operation 'builtin.unrealized_conversion_cast' that was explicitly marked illegal
  %z = memref.load %m[%c0] : memref<4xf32>
       ^
in/ir.mlir:4:8: note: see current operation: %0 = "builtin.unrealized_conversion_cast"(%arg2) : (memref<4xf32>) -> \
!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
"""
LIVE = """\
in/ir.mlir:1:47: error: failed to materialize conversion for block argument #2 that remained live after conversion, type was \
'memref<4xf32>', with target type '!spv.ptr<!spv.struct<(!spv.array<4 x f32, stride=4> [0])>, StorageBuffer>'
in/ir.mlir:4:8: note: see existing live user here: %2 = "memref.load"(<<UNKNOWN SSA VALUE>>, %0) : (memref<4xf32>, index) -> f32
"""
IR = """\
func.func @main(%x: f32, %t: tensor<1x4xf32>, %m: memref<4xf32>) -> f32 {
  %values, %indices = torch.aten.topk %arg0, %int3, %int1, %true, %true : !torch.vtensor<[4,8],f32>, !torch.int
  %1 = torch.operator "onnx.Loop"(%arg0) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
  %z = memref.load %m[%c0] : memref<4xf32>
  %int1 = torch.constant.int 1
"""


@pytest.fixture(autouse=True)
def ir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/ir.mlir").write_text(IR)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            SORT,
            "no pattern converts 'stablehlo.sort' (dimension = 1, is_stable = false) on tensor<4x8xf32>, tensor<4x8xi64>, "
            "from 'torch.aten.topk'",
        ),
        (CAST, "'builtin.unrealized_conversion_cast' is left over, from 'memref.load'"),
        (CAST + LIVE.splitlines()[1], "no pattern converts 'memref.load' on memref<4xf32>"),
        ("in/ir.mlir:3:3: error: 'x.y' op is odd", "'x.y' op is odd, from 'onnx.Loop'"),
        ("in/ir.mlir:5:3: error: 'x.y' op is odd", "'x.y' op is odd"),
        ("in/absent.mlir:5:3: error: 'x.y' op is odd", "'x.y' op is odd"),
        ("<unknown>:0: error: failed to add `cse`", ""),
        ("LLVM ERROR: no", ""),
    ],
)
def test_what_mlir_opt_prints(said: str, reason: str) -> None:
    assert reasons.by_text(said) == reason


def test_a_message_of_conversion_is_cut_at_what_is_no_operation() -> None:
    assert reasons.by_text(LIVE).startswith("failed to materialize conversion for block argument #2 that remained live")


def test_constants_come_before_types_as_far_as_there_is_room() -> None:
    generic = CONVOLUTION.partition(": ")[2]
    line = "no pattern converts 'torch.aten.convolution'"
    short = reasons.sentence(line, generic, "loc(unknown)", ["dilation = [3, 3]", "groups = 2"])
    assert (
        short
        == f"{line} (dilation = [3, 3], groups = 2) on !torch.vtensor<[1,4,8,8],f32>, !torch.vtensor<[4,4,3,3],f32>"
    )
    many = [f"operand {at} = [1, 1]" for at in range(30)]
    assert reasons.sentence(line, generic, "loc(unknown)", many) == f"{line} ({', '.join(many[:6])})"


def test_a_location_in_python_is_named_without_its_folder() -> None:
    found = reasons.sentence("no pattern converts 'torch.operator'", "", 'loc("/home/someone/in/pytorch.py":16:0)')
    assert found == "no pattern converts 'torch.operator', from line 16 of pytorch.py"


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ("<{broadcast_dimensions = array<i64: 0, 1>}>", " (broadcast_dimensions = [0, 1])"),
        ("{dilations = dense<3> : tensor<2xi64>, axis = 1 : i32}", " (dilations = 3, axis = 1)"),
        ('<{name = "sum", fastmath = #arith.fastmath<none>}> ({...}) {x}', ' (name = "sum")'),
        ("<{operandSegmentSizes = array<i32: 2, 1>, maps = [affine_map<() -> ()>]}>", ""),
        ("{value = dense<0xFF800000> : tensor<f32>}", ""),
        ("", ""),
    ],
)
def test_attributes_that_fit_in_a_sentence(attributes: str, kept: str) -> None:
    said = f"in/x.mlir:1:1: error: failed to legalize operation 'x.y': %0 = \"x.y\"(%1) {attributes} : (i32) -> i32"
    assert reasons.by_text(said) == f"no pattern converts 'x.y'{kept}"
