"""Print IR, which another release may have written, in the form of the environment's release.

inputs   ``ir``
outputs  ``generic``, which other releases can read, and ``custom``
"""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.mlir import backend
from mlir_matrix.actions.params import BackendParams

preload = backend.preload


def run(action: Action[BackendParams]) -> None:
    """Write both forms. Raise ActionFailed for what the release cannot read."""
    (found,) = backend.backend_of(action).printed(action, {"ir": "the IR"})
    Path(action.outputs["generic"]).write_text(found.generic, encoding="utf-8")
    Path(action.outputs["custom"]).write_text(found.custom, encoding="utf-8")
