"""``matrix schema``: print the JSON Schemas that editors and other programs read."""

from __future__ import annotations

import json

import click

from mlir_matrix.cli.verbs import verb


@verb("schema", "matrix schema", "matrix schema workload")
@click.argument("name", metavar="[NAME]", required=False)
def schema_command(name: str | None) -> None:
    """Print the JSON Schema of a file format (workload, step, suite, …) or of a document (plan, results).

    Without NAME, list all names. The same schemas are in docs/schemas.
    """
    from mlir_matrix.report.schemas.export import NAMES, schema

    click.echo("\n".join(NAMES) if name is None else json.dumps(schema(name), indent=2))
