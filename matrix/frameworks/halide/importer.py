"""Compile a Halide function to LLVM IR, with a C function of plain pointers that calls it with Halide's buffers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import halide as hl

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, Tensor, under_test

#: A type in Halide, and its code in a buffer: integers are 0, unsigned ones 1, floating-point numbers 2.
TYPES = {
    "f64": (hl.Float(64), 2), "f32": (hl.Float(32), 2), "i64": (hl.Int(64), 0), "i32": (hl.Int(32), 0), "i16": (hl.Int(16), 0),
    "i8": (hl.Int(8), 0), "u64": (hl.UInt(64), 1), "u32": (hl.UInt(32), 1), "u16": (hl.UInt(16), 1), "u8": (hl.UInt(8), 1),
}  # fmt: skip
#: Vectors of what every x86-64 CPU has, so that other targets can lower them, and no sum in another order than written.
TARGET = "x86-64-linux-no_runtime-no_asserts-no_bounds_query-strict_float"
BUFFER = 56


def run(action: Action) -> None:
    """Read ``source``, write ``out``."""
    inputs, outputs = action.params["inputs"], action.params["outputs"]
    for each in (*inputs, *outputs):
        if each["dtype"] not in TYPES:
            raise ActionFailed(f"{each['name']} is {each['dtype']}; Halide sources have {', '.join(TYPES)}")
    if len(outputs) != 1:
        raise ActionFailed(f"a Halide source has one output, declared are {len(outputs)}")
    source = api.load(action.inputs["source"])
    api.check_arguments(source, inputs)
    with under_test():
        parameters = [hl.ImageParam(TYPES[each["dtype"]][0], len(each["shape"]), each["name"]) for each in inputs]
        for parameter, each in zip(parameters, inputs, strict=True):
            _fix(parameter, each)
        result = source(*parameters)
        found = [str(each) for each in result.types()], result.dimensions()
    wanted = [str(TYPES[outputs[0]["dtype"]][0])], len(outputs[0]["shape"])
    if found != wanted:
        raise ActionFailed(
            f"the output has type {found[0]} and {found[1]} dimensions, declared are {wanted[0]} and {wanted[1]}"
        )
    with under_test():
        _fix(result.output_buffer(), outputs[0])
        kinds = {hl.OutputFileType.llvm_assembly: "kernel.ll"}
        result.compile_to(kinds, parameters, "halide_workload", hl.Target(TARGET))
    # What the wrapper defines is declared there, if it is used.
    text = re.sub(r"^declare .*@halide_(malloc|free)\(.*\n", "", Path("kernel.ll").read_text(), flags=re.MULTILINE)
    described = [{"dtype": each["dtype"], "shape": each["shape"]} for each in (*inputs, *outputs)]
    header = json.dumps({"inputs": described[:-1], "outputs": described[-1:]})
    wrapper = "\n".join(_wrapper([*inputs, *outputs]))
    Path(action.outputs["out"]).write_text(f"; tensors: {header}\n{text}\n{wrapper}\n")


def _fix(parameter: Any, tensor: Tensor) -> None:
    """State the sizes and strides of a tensor that lies row by row."""
    for axis, (size, stride) in enumerate(_axes(tensor)):
        parameter.dim(axis).set_bounds(0, size)
        parameter.dim(axis).set_stride(stride)


def _axes(tensor: Tensor) -> Iterator[tuple[int, int]]:
    stride = 1
    for size in reversed(tensor["shape"]):
        yield size, stride
        stride *= size


def _wrapper(tensors: list[Tensor]) -> Iterator[str]:
    """Yield ``workload``, and the functions of Halide's runtime that allocate memory."""
    yield "declare ptr @_mlir_memref_to_llvm_aligned_alloc(i64, i64)"
    yield "declare void @_mlir_memref_to_llvm_free(ptr)"
    yield "define internal ptr @halide_malloc(ptr %context, i64 %size) {"
    yield "%memory = call ptr @_mlir_memref_to_llvm_aligned_alloc(i64 128, i64 %size)"
    yield "ret ptr %memory\n}"
    yield "define internal void @halide_free(ptr %context, ptr %memory) {"
    yield "call void @_mlir_memref_to_llvm_free(ptr %memory)"
    yield "ret void\n}"
    for i, tensor in enumerate(tensors):
        axes = ", ".join(f"[4 x i32] [i32 0, i32 {size}, i32 {stride}, i32 0]" for size, stride in _axes(tensor))
        yield f"@axes{i} = internal constant [{len(tensor['shape'])} x [4 x i32]] [{axes}]"
    yield f"define void @workload({', '.join(f'ptr %p{i}' for i in range(len(tensors)))}) {{"
    for i, tensor in enumerate(tensors):
        kind, code = TYPES[tensor["dtype"]]
        fields = {16: f"ptr %p{i}", 32: f"i8 {code}", 33: f"i8 {kind.bits()}", 34: "i16 1"}
        fields |= {36: f"i32 {len(tensor['shape'])}", 40: f"ptr @axes{i}"}
        yield f"%b{i} = alloca [{BUFFER} x i8], align 8"
        yield f"store [{BUFFER} x i8] zeroinitializer, ptr %b{i}"
        for place, value in fields.items():
            yield f"%b{i}.{place} = getelementptr i8, ptr %b{i}, i64 {place}"
            yield f"store {value}, ptr %b{i}.{place}"
    yield f"%error = call i32 @halide_workload({', '.join(f'ptr %b{i}' for i in range(len(tensors)))})"
    yield "ret void\n}"
