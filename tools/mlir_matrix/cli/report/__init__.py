"""``matrix report``: reports over many tests."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {"support": "Show what works: workloads or operators by path and target."}


@click.group("report", cls=VerbGroup, verbs=VERBS, group="report", examples=("matrix report support 'pytorch/**'",))
def command() -> None:
    """Report on many tests."""
