"""Import LLVM IR into the LLVM dialect: drop the machine that it was made for, add ``_mlir_ciface_main``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlir_matrix.actions.api import Action, ActionFailed, read_text, run_program

BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
    "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1,
}  # fmt: skip
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
        ["--import-llvm", "kernel.ll", "-o", "kernel.mlir"],
        failure="the import of LLVM IR failed",
    )
    # A default layout, whose pointers have 64 bits.
    imported = re.sub(r"^module attributes \{.*\} \{$", "module {", Path("kernel.mlir").read_text(), flags=re.MULTILINE)
    Path(action.outputs["out"]).write_text(imported)


def anywhere(text: str) -> str:
    """Remove what names a machine: layout, triple, module flags, and attributes such as ``"target-cpu"="x86-64"``."""
    text = re.sub(r"^(target |source_filename|!llvm\.module\.flags|!llvm\.ident).*\n", "", text, flags=re.MULTILINE)
    return re.sub(
        r"^attributes #.*$", lambda line: re.sub(r' "[^"]+"(="[^"]*")?', "", line[0]), text, flags=re.MULTILINE
    )


def descriptor(tensor: dict[str, Any]) -> str:
    """Return the type of a tensor's descriptor: two pointers, an offset, and unless it is a scalar sizes and strides."""
    rank = len(tensor["shape"])
    return "{ptr, ptr, i64" + (f", [{rank} x i64], [{rank} x i64]}}" if rank else "}")


def interface(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a function of descriptors: of all results together, then of each argument."""
    yield "declare ptr @_mlir_memref_to_llvm_alloc(i64)"
    yield f"define void @_mlir_ciface_main(ptr %results{''.join(f', ptr %a{i}' for i in range(len(inputs)))}) {{"
    names = []
    for i, tensor in enumerate(inputs):
        whole = descriptor(tensor)
        yield f"%p{i} = getelementptr {whole}, ptr %a{i}, i32 0, i32 1"
        yield f"%q{i} = load ptr, ptr %p{i}"
        yield f"%r{i} = getelementptr {whole}, ptr %a{i}, i32 0, i32 2"
        yield f"%s{i} = load i64, ptr %r{i}"
        yield f"%x{i} = getelementptr [{BYTES[tensor['dtype']]} x i8], ptr %q{i}, i64 %s{i}"
        names.append(f"ptr %x{i}")
    results = "{" + ", ".join(descriptor(tensor) for tensor in outputs) + "}"
    for i, tensor in enumerate(outputs):
        shape = tensor["shape"]
        yield f"%y{i} = call ptr @_mlir_memref_to_llvm_alloc(i64 {math.prod(shape) * BYTES[tensor['dtype']]})"
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        fields = [("0", f"ptr %y{i}"), ("1", f"ptr %y{i}"), ("2", "i64 0")]
        fields += [(f"3, i32 {axis}", f"i64 {size}") for axis, size in enumerate(shape)]
        fields += [(f"4, i32 {axis}", f"i64 {stride}") for axis, stride in enumerate(strides)]
        for j, (place, value) in enumerate(fields):
            yield f"%d{i}.{j} = getelementptr {results}, ptr %results, i32 0, i32 {i}, i32 {place}"
            yield f"store {value}, ptr %d{i}.{j}"
        names.append(f"ptr %y{i}")
    yield f"call void @workload({', '.join(names)})"
    yield "ret void"
    yield "}"
