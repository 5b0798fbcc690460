"""Prepare a program that was composed at random: its text, inputs by formulas, and what its reference gives."""

from __future__ import annotations

import json

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    made = json.loads(api.read_text(action.inputs["source"], "the program"))
    api.write_referenced(action, made["jax.py"], made["reference.py"], made["inputs"], made["outputs"])
