"""``matrix history``: what earlier runs found."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {
    "show": "Show runs, outcomes of tests, and tests that are flaky, slower or less accurate.",
    "diff": "Show new, fixed and changed failures between two runs.",
    "push": "Add the runs of this machine to a server.",
    "export": "Write durations of tests for shards and plans of machines.",
    "prune": "Replace old results by monthly summaries.",
}


@click.group("history", cls=VerbGroup, verbs=VERBS, group="history", examples=("matrix history show 'jax/**'",))
def command() -> None:
    """Ask what earlier runs found.

    Each matrix run is recorded in the folder of the user's state, unless MATRIX_HISTORY=off. A question first adds new runs to
    a database: SQLite in the same folder, or PostgreSQL (--database URL, or MATRIX_HISTORY_URL).
    """
