"""``matrix toolchain verify``: whether what is here is still what it was."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import click

from mlir_matrix.cli.options import Verb, catalog_option, format_option, pin_option, same_catalogs, session
from mlir_matrix.cli.toolchain.fetch import listed, names_argument, resolved
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.integrity import damaged_files, remove
from mlir_matrix.environments.package import Package
from mlir_matrix.session import Session
from mlir_matrix.text import counted, megabytes
from mlir_matrix.toolchains.names import locked_things


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
    held = _named(current, names) if names else list(locked_things(current))
    packages, store = current.home.packages, Artifacts(current.home.artifacts)
    folders = {packages / folder: unit for _, folder, unit in held if folder and (packages / folder).is_dir()}
    archives = [archive for _, _, unit in held for archive in unit.archives]
    called = {value: archive.label for archive in archives for value in archive.hashes}
    entries = [entry for entry in store.entries() if not names or entry.sha256 in called]
    found = []
    for folder, unit in folders.items():
        files = damaged_files(folder, thorough=True)
        if files:
            found.append({"unit": unit.label, "folder": folder.name, "files": files})
            remove(folder)
    size = sum(entry.size for entry in entries)
    damaged = [artifact.sha256 for artifact in store.damaged(entries)]
    for value in damaged:
        store.set_aside(value)
    again = _holders(held, {str(each["folder"]) for each in found}, set(damaged))
    if form == "json":
        read = {"units": len(folders), "bytes_of_artifacts": size}
        named = {value: called[value] for value in damaged if value in called}
        click.echo(
            json.dumps({**read, "damaged": found, "artifacts": damaged, "names": named, "fetch": again}, indent=1)
        )
    else:
        for each in found:
            click.echo(f"{each['unit']} is damaged: {listed(each['files'])}")
        for value in damaged:
            click.echo(f"the archive of {called.get(value, 'what no lock names any more')} is damaged: {value}")
        click.echo(
            f"{counted(len(folders), 'unit')} and {megabytes(size)} of artifacts read; {len(found) + len(damaged)} damaged"
        )
    if found or damaged:
        told = f"; made again by: {same_catalogs(['matrix', 'toolchain', 'fetch', *again], catalogs)}" if again else ""
        click.echo(f"matrix: what is damaged was taken away{told}", err=True)
        sys.stderr.flush()
        return 3
    return 0


#: By what name a unit is fetched, its folder, the unit.
_Held = tuple[str, str, Package]


def _named(current: Session, names: tuple[str, ...]) -> list[_Held]:
    """What is locked of some names, whether or not that is installed."""
    environments, missing = resolved(current, names)
    for reason in missing:
        click.echo(f"matrix: {reason}", err=True)
    return [
        (environment.name, unit.folder_for(environment.interpreter.tag), unit)
        for environment in environments
        for unit in environment.units
    ]


def _holders(held: Sequence[_Held], folders: Collection[str], artifacts: AbstractSet[str]) -> list[str]:
    """The names by which damaged units are fetched, of each that of the least that has it."""
    sizes = Counter(name for name, _, _ in held)
    least: dict[str, str] = {}
    for name, folder, unit in sorted(held, key=lambda each: sizes[each[0]]):
        if folder in folders or any(not artifacts.isdisjoint(archive.hashes) for archive in unit.archives):
            least.setdefault(unit.label, name)
    return sorted(set(least.values()))
