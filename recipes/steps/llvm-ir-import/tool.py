"""Import LLVM IR into the LLVM dialect: drop the machine that it was made for, add ``_mlir_ciface_main``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlir_matrix.actions.api import Action, ActionFailed, read_text, run_program

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
#: Bytes of a descriptor before its sizes: two pointers and the offset.
HEAD = 24
HEADER = "; tensors: "


def run(action: Action) -> None:
    """Read ``ir``, write ``out``."""
    header, _, text = read_text(action.inputs["ir"], "the LLVM IR").partition("\n")
    if not header.startswith(HEADER):
        raise ActionFailed(f"the LLVM IR must begin with '{HEADER.strip()}' and the types of its tensors")
    tensors = json.loads(header.removeprefix(HEADER))
    shim = "\n".join(interface(tensors["inputs"], tensors["outputs"]))
    Path("kernel.ll").write_text(f"{anywhere(text)}\n{shim}\n")
    run_program(
        "mlir-translate",
        ["--import-llvm", "kernel.ll", "-o", action.outputs["out"]],
        failure="the import of LLVM IR failed",
    )


def anywhere(text: str) -> str:
    """Remove what names a machine: layout, triple, module flags, and attributes such as ``"target-cpu"="x86-64"``."""
    text = re.sub(r"^(target |source_filename|!llvm\.module\.flags|!llvm\.ident).*\n", "", text, flags=re.MULTILINE)
    return re.sub(
        r"^attributes #.*$", lambda line: re.sub(r' "[^"]+"(="[^"]*")?', "", line[0]), text, flags=re.MULTILINE
    )


def interface(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a function of descriptors: of all results together, then of each argument."""
    yield "declare ptr @_mlir_memref_to_llvm_alloc(i64)"
    yield f"define void @_mlir_ciface_main(ptr %results{''.join(f', ptr %a{i}' for i in range(len(inputs)))}) {{"
    names = []
    for i, tensor in enumerate(inputs):
        yield f"%p{i} = getelementptr i8, ptr %a{i}, i64 8"
        yield f"%q{i} = load ptr, ptr %p{i}"
        yield f"%r{i} = getelementptr i8, ptr %a{i}, i64 16"
        yield f"%s{i} = load i64, ptr %r{i}"
        yield f"%t{i} = mul i64 %s{i}, {BYTES[tensor['dtype']]}"
        yield f"%x{i} = getelementptr i8, ptr %q{i}, i64 %t{i}"
        names.append(f"ptr %x{i}")
    place = 0
    for i, tensor in enumerate(outputs):
        shape = tensor["shape"]
        yield f"%y{i} = call ptr @_mlir_memref_to_llvm_alloc(i64 {math.prod(shape) * BYTES[tensor['dtype']]})"
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        for j, value in enumerate([f"ptr %y{i}", f"ptr %y{i}", *(f"i64 {each}" for each in [0, *shape, *strides])]):
            yield f"%d{i}.{j} = getelementptr i8, ptr %results, i64 {place + 8 * j}"
            yield f"store {value}, ptr %d{i}.{j}"
        place += HEAD + 16 * len(shape)
        names.append(f"ptr %y{i}")
    yield f"call void @workload({', '.join(names)})"
    yield "ret void"
    yield "}"
