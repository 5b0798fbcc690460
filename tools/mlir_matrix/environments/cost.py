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
    packages: dict[str, Package] = {}
    for environment in environments:
        packages |= environment.folders
    absent = [package for folder, package in packages.items() if not (home.packages / folder).is_dir()]
    store = Artifacts(home.artifacts)
    return Cost(
        fetch=sum(package.size or 0 for package in packages.values()),
        to_fetch=sum(map(store.to_fetch, absent)),
        disk=sum(package.installed or 0 for package in packages.values()),
        to_install=sum(package.installed or 0 for package in absent),
        exact=all(None not in (package.size, package.installed) for package in packages.values()),
        absent=len(absent),
    )
