"""``matrix golden``: what is right, and how far from it is right enough."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import Listed
from mlir_matrix.cli.options import LazyVerbGroup

#: Verb → where it is, and what it does.
VERBS = {
    "update": Listed("golden.update", "update", "Compute the expected outputs anew and compare."),
    "calibrate": Listed("golden.calibrate", "calibrate_command", "Propose tolerances from the errors of many draws."),
    "explain": Listed("golden.explain", "explain", "Say which bounds apply to a test, and why."),
    "audit": Listed("golden.audit", "audit", "Plant miscompiles: do the tolerances catch them?"),
}


@click.group(
    "golden",
    cls=LazyVerbGroup,
    verbs=VERBS,
    of="golden",
    examples=(
        "matrix golden update",
        "matrix golden update --write mlp",
        "matrix golden explain jax/linalg-loops/x86_64/mlp",
        "matrix golden audit --seeds 50",
    ),
)
def command() -> None:
    """Expected outputs, computed in double by the workloads' references and never by a compiler, and how exact is right."""
