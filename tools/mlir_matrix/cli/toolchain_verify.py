"""``matrix toolchain verify``: whether what is here is still what it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mlir_matrix.cli.common import Verb, catalog_option, format_option, pin_option, session
from mlir_matrix.cli.toolchain_fetch import installed, listed, names_argument, resolved
from mlir_matrix.environments.artifacts import Artifacts
from mlir_matrix.environments.unit import Unit
from mlir_matrix.environments.verify import remove
from mlir_matrix.report.words import counted, megabytes
from mlir_matrix.session import Session
from mlir_matrix.toolchain import artifacts_of, locked_units


@click.command(
    "verify",
    cls=Verb,
    short_help="Read everything that is here and compare it with its hashes.",
    examples=("matrix toolchain verify", "matrix toolchain verify llvm@19"),
)
@names_argument
@pin_option
@format_option("table", "json")
@catalog_option
def verify(names: tuple[str, ...], pins: tuple[str, ...], form: str, catalogs: tuple[Path, ...]) -> int:
    """Read every byte of what is here, installed and kept, and name what is damaged: of these, else of everything.

    What is damaged is taken away, so that nothing uses it; ``matrix toolchain fetch`` makes it again. Exit code 3 where
    something is damaged.
    """
    current = session(catalogs, pins=pins)
    folders, hashes = _named(current, names) if names else (_all(current), None)
    store = Artifacts(current.home.artifacts)
    entries = [entry for entry in store.entries() if hashes is None or entry.sha256 in hashes]
    found = []
    for folder, unit in folders.items():
        files = unit.damage(folder, thorough=True)
        if files:
            found.append({"unit": unit.label, "folder": folder.name, "files": files})
            remove(folder)
    size = sum(entry.size for entry in entries)
    damaged = [artifact.sha256 for artifact in store.damaged(entries)]
    for value in damaged:
        store.set_aside(value)
    if form == "json":
        read = {"units": len(folders), "bytes_of_artifacts": size}
        click.echo(json.dumps({**read, "damaged": found, "artifacts": damaged}, indent=1))
    else:
        for each in found:
            click.echo(f"{each['unit']} is damaged: {listed(each['files'])}")
        for value in damaged:
            click.echo(f"artifact {value} is damaged")
        click.echo(
            f"{counted(len(folders), 'unit')} and {megabytes(size)} of artifacts read; {len(found) + len(damaged)} damaged"
        )
    if found or damaged:
        click.echo("matrix: what is damaged was taken away; matrix toolchain fetch makes it again", err=True)
        sys.stderr.flush()
        return 3
    return 0


def _named(current: Session, names: tuple[str, ...]) -> tuple[dict[Path, Unit], frozenset[str]]:
    """What of some names is installed, and the hashes of their artifacts, whether or not that is installed."""
    environments, missing = resolved(current, names)
    for reason in missing:
        click.echo(f"matrix: {reason}", err=True)
    units = (unit for environment in environments for unit in environment.units)
    hashes = frozenset(value for unit in units for each in artifacts_of(unit) for value in each)
    return installed(current, environments), hashes


def _all(current: Session) -> dict[Path, Unit]:
    """All that is installed and that a lock names, for whatever interpreter."""
    packages = current.home.packages
    units = {packages / name: unit for name, unit in locked_units(current).items()}
    return {path: unit for path, unit in units.items() if path.is_dir()}
