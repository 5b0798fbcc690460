"""Whether two pipelines come to the same IR, by MLIR's bindings.

Parameters: ``relation`` (the property in words), ``other`` (what the other road is called), ``same`` (true where both come from
one action), optionally ``bindings``. Inputs: ``ir`` and ``other``. Output: ``verdict``, as the judge's, with a difference as
``diagnostics`` where there is one.
"""

from __future__ import annotations

from typing import Any

from mlir_matrix.actions.runtime.contract import Action, write_json
from mlir_matrix.actions.tools import bindings, ir_diff

preload = bindings.preload


def run(action: Action) -> None:
    """Write the verdict; ActionFailed where one of the two does not parse."""
    package = bindings.load(str(action.params.get("bindings") or bindings.default_root()))
    with package.session() as session:
        modules = [
            session.parse(action.inputs[name], what) for name, what in (("ir", "the IR"), ("other", "the other IR"))
        ]
        generic, pretty = (tuple(_text(module, generic=form) for module in modules) for form in (True, False))
    told = action.params
    found = ir_diff.verdict(
        told["relation"], (generic[0], generic[1]), (pretty[0], pretty[1]), same=told["same"], other=told["other"]
    )
    write_json(action.outputs["verdict"], found)


def _text(module: Any, *, generic: bool) -> str:
    return str(module.operation.get_asm(enable_debug_info=False, print_generic_op_form=generic)).rstrip("\n") + "\n"
