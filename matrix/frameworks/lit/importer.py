"""Take a test with RUN lines as it is."""

from __future__ import annotations

import shutil

from mlir_matrix.actions.api import Action, ActionFailed, read_text


def run(action: Action) -> None:
    """Copy ``source`` to ``out``."""
    if not read_text(action.inputs["source"], "the test").strip():
        raise ActionFailed("the test is empty")
    shutil.copyfile(action.inputs["source"], action.outputs["out"])
