"""Import a Triton kernel: compare its pointers with the workload's declaration, and append how it is launched."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from mlir_matrix.actions.api import Action, ActionFailed, check_names, load, under_test

TYPES = {
    "f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8",
    "u64": "u64", "u32": "u32", "u16": "u16", "u8": "u8", "bool": "i1",
}  # fmt: skip


def run(action: Action) -> None:
    """Write the source, followed by ``launch`` as a value."""
    source, params = action.inputs["source"], action.params
    kernel: Any = load(source)
    if not hasattr(kernel, "arg_names"):
        raise ActionFailed("workload is not decorated with @triton.jit")
    tensors = [*params["inputs"], *params["outputs"]]
    for each in tensors:
        if each["dtype"] not in TYPES:
            raise ActionFailed(f"{each['name']} is {each['dtype']}; Triton's kernels have {', '.join(TYPES)}")
    constants = [each.name for each in kernel.params if each.is_constexpr]
    pointers = [name for name in kernel.arg_names if name not in constants]
    check_names("inputs and outputs", [tensor["name"] for tensor in tensors], pointers)
    launch = load(source, "launch")
    check_names("dimensions", sorted(params["dims"]), sorted(inspect.signature(launch).parameters))
    with under_test():
        grid, values = launch(**params["dims"])
    check_names("constants", sorted(constants), sorted(values))
    signature = dict.fromkeys(constants, "constexpr")
    signature |= {tensor["name"]: f"*{TYPES[tensor['dtype']]}" for tensor in tensors}
    launched = {"grid": tuple(grid), "signature": signature, "constants": values}
    Path(action.outputs["out"]).write_text(f"{Path(source).read_text()}\n\nlaunch = {launched!r}\n", encoding="utf-8")
