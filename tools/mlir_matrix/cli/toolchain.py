"""``matrix toolchain``: what environments consist of."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_matrix.cli.common import Verb, VerbGroup, catalog_option, session
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.lock import lock_file, write_lock
from mlir_matrix.environments.solve import solve
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.names import did_you_mean
from mlir_matrix.report.layout import counted


@click.group("toolchain", cls=VerbGroup, examples=("matrix toolchain lock mlir",))
def command() -> None:
    """Lock what environments consist of."""


@command.command(
    "lock",
    cls=Verb,
    short_help="Write the locks of environments.",
    examples=("matrix toolchain lock", "matrix toolchain lock mlir torch --python cp311"),
)
@click.argument("environments", nargs=-1, metavar="[ENVIRONMENT]...")
@click.option("--python", "tags", multiple=True, type=click.Choice(SUPPORTED), help="Interpreters. Default: all.")
@catalog_option
def lock(environments: tuple[str, ...], tags: tuple[str, ...], catalogs: tuple[Path, ...]) -> None:
    """Write the locks of ENVIRONMENTS (default: all that have one already).

    The lock lists every package with its version and hash, for each interpreter that all of them have wheels for.
    """
    current = session(catalogs)
    for name in environments:
        if name not in current.catalog.environments:
            raise UsageError(f"there is no environment {name!r}{did_you_mean(name, current.catalog.environments)}")
    for name in environments or sorted(current.catalog.environments):
        entry = current.catalog.environments[name]
        folder = entry.root / "toolchains" / "locks"
        pins = {
            current.catalog.components[component].document.distribution or component: release
            for component, release in current.pins(name).items()
        }
        for tag in tags or SUPPORTED:
            path = lock_file(folder, name, tag)
            if not pins or not (environments or path.exists()):
                continue
            try:
                packages = solve(pins, tag=tag)
            except InfrastructureError as error:
                click.echo(f"{name} {tag}: {error}", err=True)
                continue
            write_lock(path, packages, environment=name)
            click.echo(f"{path.relative_to(entry.root)}: {counted(len(packages), 'package')}")
