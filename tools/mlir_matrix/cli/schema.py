"""``matrix schema``: print the JSON Schemas that editors and other programs read."""

from __future__ import annotations

import json

import click

from mlir_matrix.cli.lazy import Verb
from mlir_matrix.errors import UsageError
from mlir_matrix.names import did_you_mean


@click.command("schema", cls=Verb, examples=("matrix schema", "matrix schema workload"))
@click.argument("name", metavar="[NAME]", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema of a file format (workload, step, suite, …) or of a document (plan, results).

    Without NAME, list all names. The same schemas are in docs/schemas.
    """
    from mlir_matrix.report.schemas.export import NAMES, schema

    if name is None:
        click.echo("\n".join(NAMES))
        return
    if name not in NAMES:
        raise UsageError(f"there is no schema {name!r}{did_you_mean(name, NAMES)}")
    click.echo(json.dumps(schema(name), indent=2))
