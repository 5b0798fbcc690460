"""``matrix history export``: write durations of tests for shards and plans of machines."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mlir_matrix.base.files import write_output
from mlir_matrix.base.text import now
from mlir_matrix.cli.history_store import asked, database
from mlir_matrix.cli.options import NewFile
from mlir_matrix.cli.verbs import verb


@verb("export", "matrix history export -o durations.json", "matrix history export > durations.json")
@click.option("-o", "--output", type=NewFile(), metavar="FILE", help="Write to FILE instead of stdout.")
@database
def export_command(output: Path | None, url: str) -> None:
    """Write the recent durations of tests, and when each last ran and failed, as JSON."""
    with asked(url) as (_, questions):
        from mlir_matrix.history.trends import Trends

        text = json.dumps(Trends(questions).snapshot(now()).to_document(), indent=1) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_output(output, text.encode())
