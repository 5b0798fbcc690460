"""Import hardware: parse, verify, and compare the ports of ``@main`` with the workload's tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mlir_matrix.actions.api import Action, ActionFailed, Tensor, read_text

BITS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8, "u64": 64, "u32": 32, "u16": 16, "u8": 8, "bool": 1}


def run(action: Action) -> None:
    """Read ``source``, write ``out``."""
    import circt
    from circt import ir

    text = read_text(action.inputs["source"], "the source")
    with ir.Context() as context, ir.Location.unknown():
        circt.register_dialects(context)
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            reason = error.error_diagnostics[0].message
            raise ActionFailed(f"the source does not parse: {reason}", diagnostics=str(error)) from None
        found = _ports(module)
        inputs = [f"input {each['name']} : {_port(each)}" for each in action.params["inputs"]]
        outputs = [f"output {each['name']} : {_port(each)}" for each in action.params["outputs"]]
        wanted = ", ".join(["input clk : !seq.clock", "input rst : i1", *inputs, *outputs])
        if found != f"!hw.modty<{wanted}>":
            raise ActionFailed(f"@main has the ports {found}, declared are !hw.modty<{wanted}>")
        Path(action.outputs["out"]).write_text(str(module))


def _ports(module: Any) -> str:
    for each in module.body.operations:
        if each.operation.name == "hw.module" and each.operation.attributes["sym_name"].value == "main":
            return str(each.operation.attributes["module_type"].value)
    raise ActionFailed("the source has no hw.module @main")


def _port(tensor: Tensor) -> str:
    """Return the type of a row."""
    if tensor["dtype"] not in BITS:
        raise ActionFailed(f"{tensor['name']} is {tensor['dtype']}; hardware has {', '.join(BITS)}")
    count = math.prod(tensor["shape"][1:])
    element = f"i{BITS[tensor['dtype']]}"
    return element if count == 1 else f"!hw.array<{count}x{element}>"
