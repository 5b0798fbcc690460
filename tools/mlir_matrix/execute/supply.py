"""The packages that environments need: which are complete here, and bringing what is missing while other things run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.paths import Home

if TYPE_CHECKING:
    from mlir_matrix.environments.install.installer import Installer
    from mlir_matrix.environments.package import PackageProgress


class PackageSupply:
    """Says which environments are complete; only installing happens in threads."""

    def __init__(self, home: Home, wake: Callable[[], object]) -> None:
        """``wake`` is called in an installer's thread when there is something to take."""
        self._packages = home.packages
        self._artifacts = home.artifacts
        self._wake = wake
        self._events: deque[PackageProgress] = deque()
        self._installer: Installer | None = None
        self._complete: set[str] = set()

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Ask for what these environments lack."""
        wanted = [environment for environment in environments if environment.missing(self._packages)]
        if not wanted:
            return
        if self._installer is None:
            from mlir_matrix.environments.fetch.artifacts import Artifacts
            from mlir_matrix.environments.install.installer import Installer

            self._installer = Installer(self._packages, self._note, artifacts=Artifacts(self._artifacts))
        # Small environments first: the first verdicts then come while the large ones are on their way.
        self._installer.request(sorted(wanted, key=lambda environment: environment.size))

    def _note(self, progress: PackageProgress) -> None:
        self._events.append(progress)
        self._wake()

    def news(self) -> Iterator[PackageProgress]:
        """What has happened since this was last asked."""
        while self._events:
            yield self._events.popleft()

    def has(self, environment: ResolvedEnvironment) -> bool:
        """Whether all packages of an environment are here."""
        if environment.digest not in self._complete and not environment.missing(self._packages):
            self._complete.add(environment.digest)
        return environment.digest in self._complete

    def lacks(self, environment: ResolvedEnvironment, label: str) -> bool:
        """Whether an environment needs the package that progress calls ``label``, and does not have it."""
        return any(unit.label == label for unit in environment.missing(self._packages))

    def close(self) -> None:
        """Stop what is going on; what is complete stays."""
        if self._installer is not None:
            self._installer.close()
