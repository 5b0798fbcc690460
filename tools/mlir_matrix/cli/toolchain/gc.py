"""``matrix toolchain gc``: remove packages that no lock file names."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import click

from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, session
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.integrity import remove
from mlir_matrix.environments.package import Installed
from mlir_matrix.errors import CatalogError
from mlir_matrix.files import AT_ONCE, Cancelled, acquire, is_held, locked
from mlir_matrix.session import Session, others, session_of
from mlir_matrix.text import counted, megabytes
from mlir_matrix.toolchains.names import bytes_in, locked_units

#: What is being made, or was left half done: ``.new-NAME-…``, where names end in twelve digits of a hash.
_NEW = re.compile(r"(?:\.new-)+(?P<name>.+-[0-9a-f]{12})-.*")


@click.command(
    "gc",
    cls=Verb,
    examples=("matrix toolchain gc --dry-run", "matrix toolchain gc --artifacts"),
)
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@click.option(
    "--artifacts",
    is_flag=True,
    help="Also remove archives of installed packages, which then cannot be repaired offline.",
)
@click.option("--alone", is_flag=True, help="Keep nothing for other catalogs with the same cache folder.")
@catalog_option
def gc(dry_run: bool, artifacts: bool, alone: bool, catalogs: tuple[Path, ...]) -> None:
    """Remove packages, prefixes and artifacts that no lock file names, and incomplete files.

    Files in use are kept. Archives that a lock file names are kept, unless --artifacts is given. Files that other catalogs or
    checkouts with the same cache folder need are kept, unless --alone is given.
    """
    current = session(catalogs)
    packages, store = current.home.packages, Artifacts(current.home.artifacts)
    units = locked_units(current)
    if not alone:
        units |= _needed_elsewhere(current, units)
    word = "would be removed" if dry_run else "removed"
    folders = freed = 0
    for path in _folders(packages):
        if path.name in units:
            continue
        size = bytes_in(path)
        removed = _removed(path, dry_run)
        click.echo(f"{word if removed else 'in use'}: {path.name}")
        folders += removed
        freed += size if removed else 0
    needed = _needed({name: unit for name, unit in units.items() if not (artifacts and (packages / name).is_dir())})
    loose = [entry for entry in store.entries() if entry.sha256 not in needed]
    freed += sum(entry.size if dry_run else store.remove(entry.sha256) for entry in loose)
    for path in _left(store, needed):
        with suppress(FileNotFoundError, Cancelled):
            freed += path.stat().st_size if dry_run else _unlinked(path)
            click.echo(f"{word}: {path.name}")
    for note in sorted(current.home.layers.glob("*.json")):
        if note.stem not in units and not (packages / note.stem).is_dir():
            freed += note.stat().st_size
            click.echo(f"{word}: what is known of the layer of {note.stem}")
            if not dry_run:
                note.unlink(missing_ok=True)
    click.echo(f"{counted(folders, 'folder')} and {counted(len(loose), 'artifact')} {word}, {megabytes(freed)}")


def _needed_elsewhere(current: Session, units: Mapping[str, Installed]) -> dict[str, Installed]:
    """What of the packages' other catalogs need and this one does not. Raises CatalogError for one that cannot be asked."""
    found: dict[str, Installed] = {}
    store = Artifacts(current.home.artifacts)
    for roots in others(current.home, current.catalog.roots):
        named = " with ".join(map(str, roots))
        try:
            theirs = locked_units(session_of(roots, current.home))
        except CatalogError as error:
            raise CatalogError(
                f"{named} is used with the same home and cannot be asked what it needs; mend it, or say --alone to keep "
                f"nothing for it:\n{error}"
            ) from None
        for folder, unit in theirs.items():
            if folder not in units and folder not in found:
                found[folder] = unit
                here = (current.home.packages / folder).is_dir()
                if here or any(map(store.holds, unit.archives)):
                    click.echo(f"kept for {named}: {folder}")
    return found


def _folders(packages: Path) -> list[Path]:
    try:
        return sorted(path for path in packages.iterdir() if path.is_dir() and path.name != ".locks")
    except OSError:
        return []


def _removed(path: Path, dry_run: bool) -> bool:
    """Take a folder away, unless somebody is at work on it. Nobody finds a part of what was complete."""
    new = _NEW.fullmatch(path.name)
    lock = path.parent / ".locks" / (new["name"] if new else path.name)
    if dry_run:
        return not is_held(lock)
    try:
        with locked(lock, AT_ONCE):
            if new:
                shutil.rmtree(path, ignore_errors=True)
            else:
                remove(path)
    except Cancelled:
        return False
    return True


def _needed(units: Mapping[str, Installed]) -> set[str]:
    """The hashes of all that some units are made of."""
    return {value for unit in units.values() for archive in unit.archives for value in archive.hashes}


def _unlinked(path: Path) -> int:
    """Delete what a download left, unless one goes on with it: FileNotFoundError, Cancelled. Gives the bytes that it had."""
    with open(path, "rb") as file:
        acquire(file.fileno(), AT_ONCE)
        size = os.fstat(file.fileno()).st_size
        path.unlink()
    return size


def _left(store: Artifacts, needed: set[str]) -> Iterator[Path]:
    """What killed downloads left, and damaged archives that nobody waits for: ``fetch`` brings the others back."""
    for path in store.leftovers():
        unfinished = path == store.part(path.stem)
        if unfinished or path.stem not in needed or store.has(path.stem):
            yield path
