"""Compute states of environments, their bytes to download and on disk, and whether the disk has room for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mlir_matrix.base.errors import DiskFullError
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import megabytes
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.package import Installed, Package
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment

#: What to do about a full disk.
MAKE_ROOM = "make room, or set MATRIX_HOME to a folder of another disk; then run the same command again"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Bytes. ``exact`` is False if a lock file states no size for a package, which then counts as 0."""

    #: Of all artifacts, and of those that are not downloaded.
    fetch: int = 0
    to_fetch: int = 0
    #: On disk, and of packages that are not installed.
    disk: int = 0
    to_install: int = 0
    exact: bool = True
    #: Number of packages that are not installed.
    absent: int = field(default=0, compare=False)

    @property
    def here(self) -> bool:
        """Return whether everything is installed."""
        return self.absent == 0


def cost_of(environments: Iterable[ResolvedEnvironment], home: Home) -> Cost:
    """Return the cost of some environments together; packages that they share count once."""
    return _cost_in(environments, home.packages, Artifacts(home.artifacts))


def _cost_in(environments: Iterable[ResolvedEnvironment], folder: Path, artifacts: Artifacts) -> Cost:
    packages: dict[str, Package] = {}
    for environment in environments:
        packages |= environment.folders
    absent = [package for name, package in packages.items() if not (folder / name).is_dir()]
    return Cost(
        fetch=sum(package.size or 0 for package in packages.values()),
        to_fetch=sum(map(artifacts.to_fetch, absent)),
        disk=sum(package.installed or 0 for package in packages.values()),
        to_install=sum(package.installed or 0 for package in absent),
        exact=all(None not in (package.size, package.installed) for package in packages.values()),
        absent=len(absent),
    )


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk of a folder, which need not exist."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def shortage(environments: Iterable[ResolvedEnvironment], packages: Path, artifacts: Artifacts) -> str:
    """Return a sentence if the disk has no room for missing packages of environments and their archives; else nothing."""
    cost = _cost_in(environments, packages, artifacts)
    wanted = cost.to_fetch + cost.to_install
    free = free_bytes(packages)
    if wanted <= free:
        return ""
    return f"missing packages take {megabytes(wanted)}, and the disk of {packages} has {free / 1e6:.0f} MB free"


def no_room(
    error: str, environments: Iterable[ResolvedEnvironment], packages: Path, artifacts: Artifacts
) -> DiskFullError:
    """Return the error for packages for which the disk is full, with the missing room and the fix."""
    lacking = shortage(environments, packages, artifacts)
    return DiskFullError("; ".join(filter(None, (error, lacking, MAKE_ROOM))))


def is_downloaded(package: Installed, store: Artifacts) -> bool:
    return all(map(store.holds, package.archives))


class State(StrEnum):
    """State of an environment or a release, in tables and in JSON."""

    INSTALLED = "installed"
    #: Not installed, but all archives are in the store.
    DOWNLOADED = "downloaded"
    MISSING = "missing"
    #: A source build whose needs are downloaded.
    NOT_BUILT = "not built"
    #: This machine cannot have it.
    UNAVAILABLE = "unavailable"


def state_of(environment: ResolvedEnvironment | UnavailableEnvironment, home: Home) -> State:
    """Return the state of an environment: the state of the package that is furthest from being installed."""
    if not isinstance(environment, ResolvedEnvironment):
        return State.UNAVAILABLE
    missing, store = environment.missing(home.packages), Artifacts(home.artifacts)
    if not all(is_downloaded(package, store) for package in missing):
        return State.MISSING
    if not all(package.archives for package in missing):
        return State.NOT_BUILT
    return State.DOWNLOADED if missing else State.INSTALLED


def bytes_in(folder: Path) -> int:
    """Return the bytes of the files below a folder, hard links once."""
    sizes: dict[tuple[int, int], int] = {}
    for root, _, files in os.walk(folder):
        for name in files:
            # Another process may have removed it.
            with suppress(OSError):
                found = os.lstat(f"{root}/{name}")
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def state_words(state: str, to_fetch: int = 0, reason: str = "") -> str:
    """Return the state of an environment or a release as markup, with the bytes to fetch or the reason."""
    from rich.markup import escape

    if state == State.INSTALLED:
        return f"[green]{state}[/]"
    if state == State.UNAVAILABLE:
        return f"[yellow]{state}{f': {escape(reason)}' if reason else ''}[/]"
    return f"{megabytes(to_fetch)} {state}" if state == State.MISSING and to_fetch else state
