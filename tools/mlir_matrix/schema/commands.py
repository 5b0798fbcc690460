"""``matrix schema``, ``matrix init`` and ``matrix new``."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from mlir_matrix import __version__
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_file, write_text
from mlir_matrix.base.names import is_name, why_not_a_name
from mlir_matrix.base.paths import launcher, repository
from mlir_matrix.base.text import catalog_options, counted
from mlir_matrix.cli.completion import SCHEMAS, names_in
from mlir_matrix.cli.options import project_of
from mlir_matrix.cli.verbs import verb


@verb("schema", "matrix schema", "matrix schema workload")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=names_in(SCHEMAS))
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
    for path in _files_of(template):
        contents[path.relative_to(template)] = path.read_bytes().replace(b"@VERSION@", __version__.encode())
    _refuse_existing(folder / name for name in contents)
    for name, data in contents.items():
        write_file(folder / name, data)
    program, enter = launcher(), ""
    if folder.resolve() != Path.cwd():
        enter = f"cd {shlex.quote(str(folder))} && "
        program = os.path.abspath(program) if os.sep in program else program
    click.echo(f"{folder}: {counted(len(contents), 'file')} written; try: {enter}{shlex.quote(program)} run")


#: By kind that ``matrix new`` writes: the tests of a new entry that run at once.
_TRY = {
    "workload": "mlir/linalg-loops/x86_64/NAME",
    "framework": "NAME/linalg-loops/x86_64/matmul",
    "pipeline": "mlir/NAME/x86_64/matmul",
    "target": "mlir/linalg-loops/NAME/matmul",
    "step": "mlir/NAME/ir/*",
    "suite": "NAME",
}


@verb("new", "matrix new workload relu", "matrix new step my-fusion --into acme")
@click.argument("kind", type=click.Choice(tuple(_TRY)))
@click.argument("name", metavar="NAME")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write into the catalog in DIR. Default: the first catalog of the project, or this folder.",
)
def new_command(kind: str, name: str, into: Path | None) -> None:
    """Write a workload, step, pipeline, target, framework or suite that runs at once, with comments on what to change.

    If a file exists, nothing is written.
    """
    if not is_name(name):
        raise UsageError(why_not_a_name(name))
    catalogs = () if into else project_of(click.get_current_context()).catalogs
    folder = into or (catalogs[0] if catalogs else Path())
    template = repository() / "tools" / "new" / kind
    contents: dict[Path, str] = {}
    for path in _files_of(template):
        place = folder / str(path.relative_to(template)).replace("NAME", name)
        contents[place] = path.read_text(encoding="utf-8").replace("NAME", name)
    # No other catalog has an entry of this name, either.
    _refuse_existing(root / path.relative_to(folder) for path in contents for root in (folder, repository(), *catalogs))
    for path, text in contents.items():
        write_text(path, text)
        click.echo(f"wrote {path}")
    known = {os.path.realpath(catalog) for catalog in (repository(), *catalogs)}
    words = [launcher(), "run", _TRY[kind].replace("NAME", name)]
    if os.path.realpath(folder) not in known:
        words += catalog_options([folder])
    click.echo(f"try: {shlex.join(words)}")


def _files_of(template: Path) -> Iterator[Path]:
    for path in sorted(template.rglob("*")):
        if path.is_file() and path.parent.name != "__pycache__":
            yield path


def _refuse_existing(paths: Iterable[Path]) -> None:
    """Raise UsageError if one of the paths exists, also as a link to nowhere."""
    for path in paths:
        if os.path.lexists(path):
            raise UsageError(f"{path} exists; nothing was written")
