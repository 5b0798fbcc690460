"""Export SystemVerilog by CIRCT's Python bindings."""

from __future__ import annotations

import io
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, read_text

PASSES = "builtin.module(lower-seq-to-sv,canonicalize,cse,hw.module(prettify-verilog))"
#: Places in the source would be comments.
OPTIONS = "locationInfoStyle=none"


def run(action: Action) -> None:
    """Read ``ir``, write ``out``."""
    import circt
    from circt import ir
    from circt.passmanager import PassManager

    text = read_text(action.inputs["ir"], "the IR")
    verilog = io.StringIO()
    with ir.Context() as context, ir.Location.unknown():
        circt.register_dialects(context)
        module = ir.Module.parse(text)
        module.operation.attributes["circt.loweringOptions"] = ir.StringAttr.get(OPTIONS)
        try:
            PassManager.parse(PASSES).run(module.operation)
            circt.export_verilog(module, verilog)
        except ir.MLIRError as error:
            reason = error.error_diagnostics[0].message
            raise ActionFailed(f"the export of Verilog failed: {reason}", diagnostics=str(error)) from None
    Path(action.outputs["out"]).write_text(verilog.getvalue())
