"""Sum up the bytes of environments: to download, on disk, and what of both is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.paths import Home


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Bytes. ``exact`` is False where a lock does not say what a package takes, which then counts as nothing."""

    #: Of all artifacts, and of those that are still to be fetched.
    fetch: int = 0
    to_fetch: int = 0
    #: On disk, and what of that is not there yet.
    disk: int = 0
    to_install: int = 0
    exact: bool = True
    #: Number of packages that are not installed.
    absent: int = field(default=0, compare=False)

    @property
    def here(self) -> bool:
        """Whether everything is installed."""
        return self.absent == 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            fetch=self.fetch + other.fetch,
            to_fetch=self.to_fetch + other.to_fetch,
            disk=self.disk + other.disk,
            to_install=self.to_install + other.to_install,
            exact=self.exact and other.exact,
            absent=self.absent + other.absent,
        )


def cost_of(environments: Iterable[ResolvedEnvironment], home: Home) -> Cost:
    """What some environments cost together: what they share is counted once."""
    units: dict[str, Package] = {}
    for environment in environments:
        units |= {package.folder_for(environment.interpreter.tag): package for package in environment.units}
    # What has no folder is the machine's.
    units.pop("", None)
    total = Cost()
    for folder, package in units.items():
        total += _cost_of_package(package, installed=(home.packages / folder).is_dir(), home=home)
    return total


def _cost_of_package(package: Package, *, installed: bool, home: Home) -> Cost:
    size, disk = package.size or 0, package.installed or 0
    missing = 0 if installed else Artifacts(home.artifacts).to_fetch(package)
    return Cost(
        fetch=size,
        to_fetch=missing,
        disk=disk,
        to_install=0 if installed else disk,
        exact=package.size is not None and package.installed is not None,
        absent=0 if installed else 1,
    )
