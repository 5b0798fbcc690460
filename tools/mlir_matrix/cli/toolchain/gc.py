"""``matrix toolchain gc``: remove packages that no lock file names, and the build folders of bisections."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.files import AT_ONCE, Cancelled, acquire, is_held, locked
from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installed.integrity import remove
from mlir_matrix.environments.package import Installed
from mlir_matrix.environments.selection import locked_units
from mlir_matrix.environments.session import Session, others
from mlir_matrix.environments.state import bytes_in
from mlir_matrix.plan.session import session_of

#: An incomplete package: ``.new-NAME-…``, where names end in 32 digits of a hash.
_NEW = re.compile(r"(?:\.new-)+(?P<name>.+-[0-9a-f]{32})-.*")


@verb("gc", "matrix toolchain gc --dry-run", "matrix toolchain gc --artifacts --format json")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@click.option(
    "--artifacts",
    is_flag=True,
    help="Also remove archives of installed packages, which then cannot be repaired offline.",
)
@click.option("--alone", is_flag=True, help="Keep nothing for other catalogs with the same cache folder.")
@options.output_format("text", "json")
@options.session()
def gc_command(dry_run: bool, artifacts: bool, alone: bool, form: str, current: Session) -> None:
    """Remove packages, prefixes and artifacts that no lock file names, and incomplete files.

    That includes what bisections have built, with the folders that they build in and their records of commits that cannot be
    built.

    Files in use are kept. Archives that a lock file names are kept, unless --artifacts is given. Files that other catalogs or
    checkouts with the same cache folder need are kept, unless --alone is given.
    """
    packages, store = current.home.packages, Artifacts(current.home.artifacts)
    units = locked_units(current)
    rows: list[dict[str, str]] = []

    def tell(state: str, name: str) -> None:
        rows.append({"name": name, "state": state})
        if form == "text":
            click.echo(f"{state}: {name}")

    if not alone:
        units |= _needed_elsewhere(current, units, tell)
    word = "would be removed" if dry_run else "removed"
    folders = freed = 0
    unnamed = [path for path in packages.glob("*") if path.name not in {*units, ".locks"} and path.is_dir()]
    builds = current.home.cache / "builds"
    for path in (*sorted(unnamed), *sorted(builds.glob("*"))):
        size = bytes_in(path)
        removed = _removed_builds(path, dry_run) if path.parent == builds else _removed(path, dry_run)
        tell(word if removed else "in use", path.name if path.parent == packages else f"build folder {path.name}")
        folders += removed
        freed += size if removed else 0
    # With --artifacts, an installed package needs no archives.
    needing = (unit for name, unit in units.items() if not (artifacts and (packages / name).is_dir()))
    needed = {value for unit in needing for archive in unit.archives for value in archive.hashes}
    loose = [entry for entry in store.entries() if entry.sha256 not in needed]
    freed += sum(entry.size if dry_run else store.remove(entry.sha256) for entry in loose)
    for path in _left(store, needed):
        with suppress(FileNotFoundError, Cancelled):
            freed += path.stat().st_size if dry_run else _unlinked(path)
            tell(word, path.name)
    for note in sorted(current.home.layers.glob("*.json")):
        if note.stem not in units and not (packages / note.stem).is_dir():
            freed += note.stat().st_size
            tell(word, f"metadata of the layer of {note.stem}")
            if not dry_run:
                note.unlink(missing_ok=True)
    summary = {"folders": folders, "artifacts": len(loose), "bytes": freed}
    document = {"schema": "mlir-matrix/gc/v1", "dry_run": dry_run, "files": rows, "summary": summary}
    total = f"{counted(folders, 'folder')} and {counted(len(loose), 'artifact')} {word}, {megabytes(freed)}"
    show(form, document, [total])


def _needed_elsewhere(
    current: Session, units: Mapping[str, Installed], tell: Callable[[str, str], None]
) -> dict[str, Installed]:
    """Return the packages that only other catalogs need. Raise CatalogError for a catalog that cannot be loaded."""
    found: dict[str, Installed] = {}
    store = Artifacts(current.home.artifacts)
    for roots in others(current.home, current.catalog.roots):
        named = " with ".join(map(str, roots))
        try:
            theirs = locked_units(session_of(roots, current.home))
        except CatalogError as error:
            raise CatalogError(
                f"{named} uses the same cache folder and cannot be loaded; repair it, or keep nothing for it with --alone:\n"
                f"{error}"
            ) from None
        for folder, unit in theirs.items():
            if folder not in units and folder not in found:
                found[folder] = unit
                here = (current.home.packages / folder).is_dir()
                if here or any(map(store.holds, unit.archives)):
                    tell(f"kept for {named}", folder)
    return found


def _removed(path: Path, dry_run: bool) -> bool:
    """Remove a folder as a whole and return True, unless another process uses it."""
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


def _removed_builds(path: Path, dry_run: bool) -> bool:
    """Remove the folders that bisections build a component in and return True, unless a process builds in one of them."""
    with ExitStack() as stack:
        try:
            for lock in path.glob("*.lock"):
                stack.enter_context(locked(lock, AT_ONCE))
        except Cancelled:
            return False
        if not dry_run:
            shutil.rmtree(path, ignore_errors=True)
        return True


def _unlinked(path: Path) -> int:
    """Delete the file of a download and return its size. Raises FileNotFoundError, or Cancelled if a download uses it."""
    with open(path, "rb") as file:
        acquire(file.fileno(), AT_ONCE)
        size = os.fstat(file.fileno()).st_size
        path.unlink()
    return size


def _left(store: Artifacts, needed: set[str]) -> Iterator[Path]:
    """Yield the files of killed downloads, and damaged archives that ``fetch`` would not download again."""
    for path in store.leftovers():
        unfinished = path == store.part(path.stem)
        if unfinished or path.stem not in needed or store.has(path.stem):
            yield path
