"""Whether two pipelines come to the same IR, by ``mlir-opt`` of whatever release the environment has: as ``same_ir``.

Parameters: ``relation``, ``other``, ``same``. Inputs: ``ir`` and ``other``. Output: ``verdict``.
"""

from __future__ import annotations

from mlir_matrix.actions.runtime.contract import Action, read_text, write_json
from mlir_matrix.actions.tools import ir_diff, opt_passes


def run(action: Action) -> None:
    """Write the verdict; ActionFailed where one of the two does not parse."""
    generic, pretty = ((_text(action, "ir", *form), _text(action, "other", *form)) for form in (_GENERIC, ()))
    told = action.params
    found = ir_diff.verdict(told["relation"], generic, pretty, same=told["same"], other=told["other"])
    write_json(action.outputs["verdict"], found)


_GENERIC = ("--mlir-print-op-generic",)


def _text(action: Action, name: str, *form: str) -> str:
    target = f"{name}{len(form)}.mlir"
    opt_passes.optimise(action.inputs[name], "", target, *form)
    return read_text(target, "the IR").rstrip("\n") + "\n"
