"""Find and remove packages, builds and archives that no lock file names."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.files import AT_ONCE, Cancelled, acquire, is_held, locked
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installed.integrity import remove
from mlir_matrix.environments.package import Installed
from mlir_matrix.environments.selection import locked_units
from mlir_matrix.environments.session import Session, others
from mlir_matrix.plan.session import session_of

#: An incomplete package: ``.new-NAME-…``, where names end in 32 digits of a hash.
_NEW = re.compile(r"(?:\.new-)+(?P<name>.+-[0-9a-f]{32})-.*")


def needed_elsewhere(
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


def remove_unused(path: Path, dry_run: bool) -> bool:
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


def remove_builds(path: Path, dry_run: bool) -> bool:
    """Remove the folders that bisections build a component in and return True, unless a process builds in one of them.

    Also the folders in which integrations apply patches.
    """
    if is_held(path):
        return False
    with ExitStack() as stack:
        try:
            for lock in path.glob("*.lock"):
                stack.enter_context(locked(lock, AT_ONCE))
        except Cancelled:
            return False
        if not dry_run:
            shutil.rmtree(path, ignore_errors=True)
        return True


def unlink_download(path: Path) -> int:
    """Delete the file of a download and return its size. Raises FileNotFoundError, or Cancelled if a download uses it."""
    with open(path, "rb") as file:
        acquire(file.fileno(), AT_ONCE)
        size = os.fstat(file.fileno()).st_size
        path.unlink()
    return size


def leftover_downloads(store: Artifacts, needed: set[str]) -> Iterator[Path]:
    """Yield the files of killed downloads, and damaged archives that ``fetch`` would not download again."""
    for path in store.leftovers():
        unfinished = path == store.part(path.stem)
        if unfinished or path.stem not in needed or store.has(path.stem):
            yield path
