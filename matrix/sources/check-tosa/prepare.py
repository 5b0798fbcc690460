"""Prepare a function of a file of TOSA that checks its own results."""

from __future__ import annotations

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    _, _, name = str(action.params["member"]).rpartition("::")
    api.load(action.inputs["checks.py"], "prepare")(action, name)
