"""Compile a C kernel to LLVM IR that no optimisation has seen, after a prototype with the workload's tensors."""

from __future__ import annotations

import json
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, Tensor, read_text, run_program

TYPES = {
    "f64": "double", "f32": "float", "f16": "_Float16", "bf16": "uint16_t",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "_Bool",
    "c64": "float _Complex", "c128": "double _Complex",
}  # fmt: skip
#: -O1 without passes: functions are not marked optnone, and LLVM's own optimiser comes later. Types of pointers say nothing of
#: aliases, because their metadata differs between releases.
OPTIONS = [
    "-std=c17",
    "-O1",
    "-Xclang",
    "-disable-llvm-passes",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-ident",
]


def run(action: Action) -> None:
    """Read ``source``, write ``out``. Raise ActionFailed where ``workload`` has other parameters than declared."""
    inputs, outputs = action.params["inputs"], action.params["outputs"]
    dims = "".join(f"#define {name} {size}\n" for name, size in action.params["dims"].items())
    parameters = [*(f"const {_array(each)}" for each in inputs), *(_array(each) for each in outputs)]
    Path("declared.h").write_text(f"void workload({', '.join(parameters)});\n{dims}")
    included = ["-include", action.inputs["prelude.h"], "-include", "declared.h"]
    machine = ["--target=x86_64-unknown-linux", "-nostdinc", "-Werror=implicit-function-declaration"]
    run_program(
        "clang",
        [*OPTIONS, *machine, *included, "-S", "-emit-llvm", "-x", "c", action.inputs["source"], "-o", "kernel.ll"],
        failure="clang refuses the kernel",
    )
    text = read_text("kernel.ll", "the LLVM IR")
    if "@workload(" not in text:
        raise ActionFailed("the kernel defines no function workload")
    tensors = {"inputs": [_described(each) for each in inputs], "outputs": [_described(each) for each in outputs]}
    Path(action.outputs["out"]).write_text(f"; tensors: {json.dumps(tensors)}\n{text}")


def _array(tensor: Tensor) -> str:
    sizes = "".join(f"[{size}]" for size in tensor["shape"]) or "[1]"
    return f"{TYPES[tensor['dtype']]} {tensor['name']}{sizes}"


def _described(tensor: Tensor) -> dict[str, object]:
    return {"dtype": tensor["dtype"], "shape": tensor["shape"]}
