"""``matrix golden``: manage expected outputs and numeric tolerances."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {
    "update": "Compute expected outputs again and compare.",
    "calibrate": "Propose tolerances from measured errors.",
    "explain": "Show which bounds apply to a test, and why.",
    "audit": "Measure which planted miscompiles the tolerances catch.",
}


@click.group(
    "golden",
    cls=VerbGroup,
    verbs=VERBS,
    group="golden",
    examples=(
        "matrix golden update",
        "matrix golden update --write mlp",
        "matrix golden explain jax/linalg-loops/x86_64/mlp",
        "matrix golden audit --seeds 50",
    ),
)
def command() -> None:
    """Manage expected outputs and numeric tolerances.

    Expected outputs (goldens) are computed in float64 by the workloads' references, never by a compiler.
    """
