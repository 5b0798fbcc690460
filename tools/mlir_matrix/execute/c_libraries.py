"""Find installed C libraries, which are results of the actions that build them, and install others."""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.plan.graph import PlannedAction

if TYPE_CHECKING:
    from mlir_matrix.environments.c_library import CLibrary

_OUTPUT = "runtime"


def builds_c_library(action: PlannedAction) -> bool:
    """Return whether an action builds only the C library of a target."""
    return action.tool == "link_kit" and [*action.outputs] == [_OUTPUT]


class CLibraries:
    """Finds and installs C libraries for one run. It installs nothing if the packages are read-only."""

    def __init__(
        self,
        packages: Path,
        environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
        store: ActionCache,
    ) -> None:
        self._packages = packages
        self._environments = environments
        self._store = store
        #: Locks of the C libraries that this run builds, by the key of the action.
        self._claims: dict[str, ExitStack] = {}

    def find(self, action: PlannedAction) -> Result | None:
        """Return the result of an action whose C library is installed, after adding the object to the store."""
        library = self._library(action)
        path = library.find(self._packages) if library else None
        if path is None:
            return None
        self._store.prepare()
        try:
            digest = self._store.add_copy(str(path))
        except OSError:
            return None
        return Result(outcome={"outcome": "ok", "stage": action.stage}, outputs={_OUTPUT: digest})

    def keep(self, action: PlannedAction, result: Result) -> None:
        """Install the C library that an action has built. Ignore failures."""
        library = self._library(action)
        if library and result.ok:
            with suppress(InfrastructureError, Cancelled):
                library.install(self._packages, Path(self._store.blob_path(result.outputs[_OUTPUT])))

    def claim(self, key: str, action: PlannedAction) -> bool:
        """Return False while another run builds the same C library, with any action cache."""
        library = None if key in self._claims else self._library(action)
        if library is None:
            return True
        stack = ExitStack()
        try:
            stack.enter_context(library.lock(self._packages))
        except Cancelled:
            return False
        except OSError:
            return True
        self._claims[key] = stack
        return True

    def release(self, *, but: Container[str] = ()) -> None:
        """Release all locks except those of some keys."""
        for key in [key for key in self._claims if key not in but]:
            self._claims.pop(key).close()

    def _library(self, action: PlannedAction) -> CLibrary | None:
        environment = self._environments.get(action.environment)
        if not builds_c_library(action) or not isinstance(environment, ResolvedEnvironment):
            return None
        from mlir_matrix.environments.c_library import CLibrary  # a run of cache hits needs none

        return CLibrary.of(str(action.params["triple"]), environment.packages)
