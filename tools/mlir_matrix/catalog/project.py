"""Find and read the file of a project, ``matrix.yaml``, upward from the folder where a command is called."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.errors import UsageError

FILE = "matrix.yaml"
#: A project's file or folder, or ``off``.
VARIABLE = "MATRIX_PROJECT"


@dataclass(frozen=True)
class FoundLimits:
    """Limits of an action, and how many run at a time. None: as without a project."""

    #: Seconds.
    timeout: float | None = None
    #: MiB.
    memory: int | None = None
    jobs: int | None = None


@dataclass(frozen=True)
class FoundProject:
    """A project with absolute paths; without a project, all is empty."""

    catalogs: tuple[Path, ...] = ()
    #: What selects tests where a command names none: a suite, globs.
    tests: tuple[str, ...] = ()
    #: ``COMPONENT=RELEASE`` or ``COMPONENT=FOLDER``.
    pins: tuple[str, ...] = ()
    machine: str = ""
    limits: FoundLimits = FoundLimits()


NO_PROJECT = FoundProject()


def find_project_file(start: Path) -> Path | None:
    """Return the file of a folder's project: what ``MATRIX_PROJECT`` names, else the nearest ``matrix.yaml`` above, if any.

    The search ends at the home folder. Raise UsageError for a file that is missing, or that belongs to another user.
    """
    named = os.environ.get(VARIABLE, "")
    if named == "off":
        return None
    if named:
        path = Path(named).absolute()
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise UsageError(f"{VARIABLE}={named}: there is no such file; name a {FILE}, or: {VARIABLE}=off")
        return path
    found = next((folder / FILE for folder in _upward(start) if os.path.lexists(folder / FILE)), None)
    if found is None:
        return None
    owner = found.lstat().st_uid
    if owner not in (os.getuid(), 0):
        raise UsageError(
            f"{found}: this file belongs to another user (number {owner}), who could choose what runs; "
            f"to use it: {VARIABLE}={found}, to ignore it: {VARIABLE}=off"
        )
    return found


def entry_names(roots: Iterable[Path], folder: str) -> set[str]:
    """Return the names of what is in a folder of the catalogs. Files are enough for that: loading the catalogs takes longer."""
    found: set[str] = set()
    for root in roots:
        with suppress(OSError):
            found |= {name.removesuffix(".yaml").removesuffix(".json") for name in os.listdir(root / folder)}
    return found


def _upward(start: Path) -> Iterator[Path]:
    """Yield a folder and those around it, up to the home folder or the root."""
    try:
        home = Path.home().resolve()
    except RuntimeError:
        home = None
    for folder in (start, *start.parents):
        yield folder
        if folder == home:
            return
