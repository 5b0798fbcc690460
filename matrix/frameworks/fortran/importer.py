"""Compile a Fortran kernel to HLFIR, and compare its parameters with the workload's tensors."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, Tensor, read_text, run_program

#: Fortran has no unsigned integers; its logical(1) is a byte, as a boolean is.
ELEMENTS = {
    "f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8",
    "u64": "i64", "u32": "i32", "u16": "i16", "u8": "i8", "bool": "!fir.logical<1>",
    "c64": "complex<f32>", "c128": "complex<f64>",
}  # fmt: skip


def run(action: Action) -> None:
    """Read ``source``, write ``out``. Raise ActionFailed where ``workload`` has other parameters than declared."""
    declared = [*action.params["inputs"], *action.params["outputs"]]
    dims = [f"-D{name}={size}" for name, size in action.params["dims"].items()]
    # Dimensions of this name are replaced; those of a lower-case variable are not.
    options = ["-fc1", "-cpp", *dims, "-x", "f95", "-emit-hlfir", "-ffp-contract=off"]
    run_program("flang", [*options, action.inputs["source"], "-o", "kernel.mlir"], failure="flang refuses the kernel")
    text = read_text("kernel.mlir", "the HLFIR")
    found = re.search(r"func\.func @workload\((.*?)\) attributes", text)
    if not found:
        raise ActionFailed("the source has no subroutine workload with bind(c)")
    types = re.findall(r"%arg\d+: (\S+)", found[1])
    wanted = [_type(each) for each in declared]
    if types != wanted:
        raise ActionFailed(f"workload takes {', '.join(types)}; declared are {', '.join(wanted)}")
    count = len(action.params["inputs"])
    described = [{"dtype": each["dtype"], "shape": each["shape"]} for each in declared]
    tensors = {"inputs": described[:count], "outputs": described[count:]}
    Path(action.outputs["out"]).write_text(f"// tensors: {json.dumps(tensors)}\n{text}")


def _type(tensor: Tensor) -> str:
    element = ELEMENTS[tensor["dtype"]]
    sizes = "x".join(str(size) for size in reversed(tensor["shape"]))
    return f"!fir.ref<!fir.array<{sizes}x{element}>>" if sizes else f"!fir.ref<{element}>"
