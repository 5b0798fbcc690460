"""The common part of worker pools: installation of packages, folders and time limits."""

from __future__ import annotations

import os
import selectors
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from mlir_matrix.actions.runtime.child import LOG_FILE
from mlir_matrix.actions.runtime.running import BUSY
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Job, Task
from mlir_matrix.execute.worker_process import Preload, WorkerHandle
from mlir_matrix.plan.graph import BUILDING, Graph, PlannedAction
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from mlir_matrix.environments.installer import Installer

#: Time limit in seconds of tools that build the program's own libraries.
_BUILDING_S = 1800.0
#: Seconds after an action's time limit until a silent worker is killed. The worker's imports take some of them.
_PATIENCE_S = 120.0


class PackageSupply:
    """Installs missing packages in threads. An environment is ready once all its packages are installed."""

    def __init__(self, home: Home, wake: Callable[[], object]) -> None:
        """Install nothing yet. An installer's thread calls ``wake`` after each event."""
        self._home = home
        self._wake = wake
        self._events: deque[PackageProgress] = deque()
        self._installer: Installer | None = None
        self._complete: set[str] = set()

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Install the missing packages of these environments."""
        wanted = [environment for environment in environments if environment.missing(self._home.packages)]
        if not wanted:
            return
        if self._installer is None:
            from mlir_matrix.environments.fetch.artifacts import Artifacts
            from mlir_matrix.environments.installer import Installer

            self._installer = Installer(self._home.packages, self._note, artifacts=Artifacts(self._home.artifacts))
        # Small environments first: their tests run while the large ones are downloaded.
        self._installer.request(sorted(wanted, key=lambda environment: environment.size))

    def _note(self, progress: PackageProgress) -> None:
        self._events.append(progress)
        self._wake()

    def news(self) -> Iterator[PackageProgress]:
        """Yield the events since the last call."""
        while self._events:
            yield self._events.popleft()

    def has(self, environment: ResolvedEnvironment) -> bool:
        """Return whether an environment is ready."""
        if environment.digest not in self._complete and not environment.missing(self._home.packages):
            self._complete.add(environment.digest)
        return environment.digest in self._complete

    def is_idle(self) -> bool:
        """Return whether no installation runs, and :meth:`news` has yielded all events."""
        # In this order, because an installer adds its last event before it is idle.
        return (self._installer is None or self._installer.is_idle()) and not self._events

    def lacks(self, environment: ResolvedEnvironment, label: str) -> bool:
        """Return whether an environment is not ready because of the package that events call ``label``."""
        return any(unit.label == label for unit in environment.missing(self._home.packages))

    def close(self) -> None:
        """Stop. Complete packages stay."""
        if self._installer is not None:
            self._installer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContext:
    """The parts of a run that its pool uses."""

    selector: selectors.BaseSelector
    #: Wakes the selector. Any thread may call it.
    wake: Callable[[], object]
    #: What workers import beforehand, by the digest of their environment.
    preloads: Mapping[str, Preload]
    home: Home
    #: A folder that is removed with the run, on the disk of the store.
    scratch: Path
    store: ActionCache
    limits: Limits


class LostJob(NamedTuple):
    """An unfinished job of a worker that has ended, and whether its current action had begun."""

    job: Job
    began: bool


W = TypeVar("W", bound=WorkerHandle)


class WorkerPool(ABC, Generic[W]):
    """Workers, which are registered with the selector for reading, with themselves as data."""

    #: How many actions a job may have.
    most_actions = 1

    def __init__(self, context: PoolContext, supply: PackageSupply) -> None:
        self.supply = supply
        self._context = context

    @abstractmethod
    def workers(self) -> Sequence[W]:
        """Return all workers."""

    @abstractmethod
    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return the environments that can take a job now; ``waiting`` counts the jobs of each, by its digest."""

    @abstractmethod
    def send(self, job: Job, task: Task) -> None:
        """Send a job to a worker, in a folder filled for it, ``job.folder``. ``task``: its first action.

        Raise LostBlob if an input is missing, or OSError if the machine fails. The folder is removed then.
        """

    def proceed(self, job: Job, task: Task) -> None:
        """Have a job that waits go on with its next action. Raise LostBlob, or OSError if the machine fails."""
        raise NotImplementedError

    def cancel(self, job: Job) -> None:
        """End a job that waits. It is answered once more."""
        raise NotImplementedError

    @abstractmethod
    def release(self, job: Job) -> None:
        """Take back the folder of a job that has ended, after its outputs were moved out."""

    @abstractmethod
    def renew(self, environment: ResolvedEnvironment) -> None:
        """End the idle workers of an environment: its next job gets a new one."""

    @abstractmethod
    def remove_worker(self, worker: W) -> tuple[str, list[LostJob]]:
        """Remove a worker that has ended or whose answer is invalid. Return its last output and its unfinished jobs."""

    def _end(self, worker: W) -> tuple[str, list[LostJob]]:
        """End a worker. Return its last output and its unfinished jobs."""
        self._context.selector.unregister(worker.fileno())
        words = worker.last_output()
        worker.stop()
        return words, [LostJob(job, os.path.exists(f"{job.folder}/{LOG_FILE}")) for job in worker.pending.values()]

    def end_silent(self) -> None:
        """Kill workers that do not answer even after the time limit: stopped, or stuck in an import."""
        now = time.monotonic()
        for worker in self.workers():
            limits = [time_limit(job.actions[0], self._context.limits) for job in worker.pending.values()]
            if limits and worker.heard < now - BUSY * max(limits) - _PATIENCE_S:
                worker.kill()

    @abstractmethod
    def close(self) -> None:
        """End all workers and everything that they run."""


#: Makes the pool of a run, once an action has to be executed.
PoolFactory = Callable[[PoolContext], WorkerPool[Any]]


def preloads_of(
    graph: Graph, environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment]
) -> Mapping[str, Preload]:
    """Return the modules that workers import for the actions of a graph, by the digest of their environment."""
    found: dict[str, Preload] = defaultdict(lambda: Preload(set(), set()))
    for action in graph.actions.values():
        environment = environments[action.environment]
        if isinstance(environment, ResolvedEnvironment):
            found[environment.digest].add(action)
    return found


def is_compilation(action: PlannedAction) -> bool:
    """Return whether an action only calls a compiler through its bindings.

    Such actions can share a process: no code of the program under test runs there, and after a success the context of MLIR
    is like a new one.
    """
    return action.tool in ("passes", "object") and action.params.get("backend", "bindings") == "bindings"


def time_limit(action: PlannedAction, limits: Limits) -> float:
    """Return the seconds that an action may take."""
    return max(limits.timeout_s, _BUILDING_S) if action.tool in BUILDING else limits.timeout_s
