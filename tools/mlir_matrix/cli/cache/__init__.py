"""``matrix cache``: remove old results from the action cache."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {"gc": "Remove the least recently used results."}


@click.group("cache", cls=VerbGroup, verbs=VERBS, group="cache", examples=("matrix cache gc --max-size 5G --dry-run",))
def command() -> None:
    """Remove old results from the action cache. They are made again when needed."""
