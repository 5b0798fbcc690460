"""Export SystemVerilog by CIRCT's Python bindings."""

from __future__ import annotations

import io
from pathlib import Path

from mlir_matrix.actions.api import Action, read_text, under_test

PASSES = "builtin.module(lower-seq-to-sv,canonicalize,cse,hw.module(prettify-verilog))"
#: Places in the source would be comments.
OPTIONS = "locationInfoStyle=none"


def run(action: Action) -> None:
    """Read ``ir``, write ``out``."""
    import circt
    from circt import ir
    from circt.passmanager import PassManager

    text = read_text(action.inputs["ir"], "the IR")
    with ir.Context() as context, ir.Location.unknown(), under_test():
        circt.register_dialects(context)
        module = ir.Module.parse(text)
        module.operation.attributes["circt.loweringOptions"] = ir.StringAttr.get(OPTIONS)
        PassManager.parse(PASSES).run(module.operation)
        verilog = io.StringIO()
        circt.export_verilog(module, verilog)
    Path(action.outputs["out"]).write_text(verilog.getvalue())
