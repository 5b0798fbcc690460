"""``matrix toolchain verify``: check every byte of installed packages."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import click

from mlir_matrix.catalog.pins import PINS_MARK
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, format_option, pin_option, same_catalogs, session
from mlir_matrix.cli.toolchain.fetch import listed, names_argument, resolved
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.integrity import damaged_files, remove
from mlir_matrix.environments.package import Installed
from mlir_matrix.session import Session
from mlir_matrix.text import counted, megabytes
from mlir_matrix.toolchains.names import c_libraries, locked_packages


@click.command(
    "verify",
    cls=Verb,
    examples=("matrix toolchain verify", "matrix toolchain verify llvm@19"),
)
@names_argument
@pin_option
@format_option("table", "json")
@catalog_option
def verify(names: tuple[str, ...], pins: tuple[str, ...], form: str, catalogs: tuple[Path, ...]) -> int:
    """Check every byte of installed packages and downloaded archives.

    Without arguments, verify everything. Damaged packages and archives are removed; ``matrix toolchain fetch`` makes them again.

    Exit code: 0 nothing is damaged; 3 something is damaged.
    """
    current = session(catalogs, pins=pins)
    held = _named(current, names) if names else list(locked_packages(current))
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


#: By what name a unit is fetched (empty where a run builds it), its folder, the unit.
_Held = tuple[str, str, Installed]


def _named(current: Session, names: tuple[str, ...]) -> list[_Held]:
    """What is locked of some names, whether or not that is installed."""
    environments, missing = resolved(current, names)
    for reason in missing:
        click.echo(f"matrix: {reason}", err=True)
    held: list[_Held] = []
    for environment in environments:
        held += [(environment.name, unit.folder_for(environment.interpreter.tag), unit) for unit in environment.units]
        libraries = c_libraries(current, environment.name.partition(PINS_MARK)[0], environment.packages)
        held += [("", library.folder, library) for library in libraries]
    return held


def _holders(held: Sequence[_Held], folders: Collection[str], artifacts: AbstractSet[str]) -> list[str]:
    """The names by which damaged units are fetched, of each that of the least that has it."""
    sizes = Counter(name for name, _, _ in held)
    least: dict[str, str] = {}
    for name, folder, unit in sorted(held, key=lambda each: sizes[each[0]]):
        if name and (folder in folders or any(not artifacts.isdisjoint(archive.hashes) for archive in unit.archives)):
            least.setdefault(unit.label, name)
    return sorted(set(least.values()))
