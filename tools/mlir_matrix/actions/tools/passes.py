"""Run a pass pipeline on IR, after patterns and with a transform schedule if the step has them.

params   ``passes``: the pipeline, without ``builtin.module(…)`` around it; ``parameters``: values for ``${name}`` in the step's
         files
inputs   ``ir``: text or bytecode; optionally ``patterns``: a module of ``pdl.pattern``, applied before the first pass, and
         ``schedule``: a module of ``transform.named_sequence`` for the pass ``transform-interpreter``
outputs  ``ir``: text
"""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.actions.contract import Action, fill, read_text
from mlir_matrix.actions.mlir import backend
from mlir_matrix.actions.params import PassesParams

preload = backend.preload


def run(action: Action[PassesParams]) -> None:
    """Read ``ir``, run the passes, write ``ir``. Raise ActionFailed with the compiler's diagnostics."""
    schedule, patterns = (companion(action, name) for name in ("schedule", "patterns"))
    tool = backend.backend_of(action)
    tool.transform(action, action.params["passes"], schedule=schedule, patterns=patterns)


def companion(action: Action[PassesParams], name: str) -> str | None:
    """Replace the parameters in a file of the step. Return its path, which diagnostics show."""
    if name not in action.inputs:
        return None
    text = read_text(action.inputs[name], f"the file of the {name}")
    filled = Path(f"{name}.mlir")
    filled.write_text(fill(text, action.params.get("parameters", {})), encoding="utf-8")
    return str(filled)
