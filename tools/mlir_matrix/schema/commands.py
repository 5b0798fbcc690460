"""``matrix schema`` and ``matrix init``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click

from mlir_matrix import __version__
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_file
from mlir_matrix.base.paths import repository
from mlir_matrix.base.text import counted
from mlir_matrix.cli.verbs import verb


@verb("schema", "matrix schema", "matrix schema workload")
@click.argument("name", metavar="[NAME]", required=False)
def schema_command(name: str | None) -> None:
    """Print the JSON Schema of a file format (workload, step, suite, …) or of a document (plan, results).

    Without NAME, list all names. The same schemas are in docs/schemas.
    """
    from mlir_matrix.schema.export import NAMES, schema

    click.echo("\n".join(NAMES) if name is None else json.dumps(schema(name), indent=2))


@verb("init", "matrix init acme", "matrix init .")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def init_command(folder: Path) -> None:
    """Write a small project into DIR: a workload with reference and golden, a suite, and a workflow for GitHub that runs it.

    Editors complete and check its files with the JSON Schemas in DIR/docs/schemas. Existing files are not changed: if a file
    exists, nothing is written.
    """
    from mlir_matrix.schema.export import FILES, text

    template = repository() / "tools" / "template"
    contents = {Path("docs", "schemas", f"{name}.json"): text(name).encode() for name in FILES}
    for path in sorted(template.rglob("*")):
        if path.is_file() and path.parent.name != "__pycache__":
            contents[path.relative_to(template)] = path.read_bytes().replace(b"@VERSION@", __version__.encode())
    for name in contents:
        if os.path.lexists(folder / name):
            raise UsageError(f"{folder / name} exists; nothing was written")
    for name, data in contents.items():
        write_file(folder / name, data)
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    click.echo(f"{folder}: {counted(len(contents), 'file')} written; try: {enter}matrix run")
