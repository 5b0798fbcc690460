"""``matrix machine``: build machines, what they have and what they run."""

from __future__ import annotations

import click

from mlir_matrix.cli.lazy import VerbGroup

VERBS = {"init": "Set this machine up as a worker of Buildbot."}


@click.group(
    "machine",
    cls=VerbGroup,
    verbs=VERBS,
    group="machine",
    examples=("matrix machine init --buildbot ~/worker --master lab.example.org --name avx512 --password-file secret",),
)
def command() -> None:
    """Describe build machines: what they have, and which tests they run."""
