"""Write a program in MLIR for other sizes of its dimensions.

params   ``sizes``: by size in the types of the program, the other size
inputs   ``source``: the program as text
outputs  ``source``: the same with the other sizes, line by line
"""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.actions.contract import Action, read_text
from mlir_matrix.actions.mlir.sizes import resized
from mlir_matrix.actions.params import ResizeParams


def run(action: Action[ResizeParams]) -> None:
    """Replace all sizes at once. Raise ActionFailed if the program is no text."""
    sizes = action.params["sizes"]
    text = read_text(action.inputs["source"], "the program")
    changed = resized(text, lambda size: sizes.get(str(size), size))
    Path(action.outputs["source"]).write_text(changed, encoding="utf-8")
