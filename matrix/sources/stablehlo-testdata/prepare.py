"""Prepare a file of StableHLO's testdata."""

from __future__ import annotations

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    api.load(action.inputs["checks.py"], "prepare")(action, "main")
