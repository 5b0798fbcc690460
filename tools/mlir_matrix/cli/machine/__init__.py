"""``matrix machine``: build machines, what they have and what they run."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {
    "probe": "Print a machine file of this machine.",
    "list": "List the machines of the catalogs.",
    "check": "Compare this machine with its file.",
    "init": "Set this machine up as a worker of Buildbot.",
    "fleet": "Show what several machines run, and what none runs.",
}


@click.group(
    "machine",
    cls=VerbGroup,
    verbs=VERBS,
    group="machine",
    examples=("matrix machine probe > matrix/machines/NAME.yaml", "matrix machine fleet"),
)
def command() -> None:
    """Describe build machines: what they have, and which tests they run."""
