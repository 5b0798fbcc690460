"""Interfaces between the scheduler and an executor: a supply of environments, and a pool of workers."""

from __future__ import annotations

import selectors
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.events import PackageProgress
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import BUILDING, Job
from mlir_matrix.execute.options import Limits
from mlir_matrix.execute.sandbox import FilePool
from mlir_matrix.execute.worker_process import WorkerLink
from mlir_matrix.paths import Home
from mlir_matrix.plan.graph import Graph

#: Time limit of tools that build our own libraries. Seconds.
_BUILDING_S = 1800.0
#: Seconds beyond an action's limit after which a silent worker is ended. Imports take some of them.
_PATIENCE_S = 120.0


class Supply(Protocol):
    """Makes environments ready in the background."""

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Make these environments ready."""

    def news(self) -> Iterator[PackageProgress]:
        """Yield the events since the last call."""

    def has(self, environment: ResolvedEnvironment) -> bool:
        """Return whether an environment is ready."""

    def lacks(self, environment: ResolvedEnvironment, label: str) -> bool:
        """Return whether an environment is not ready because of the package that events call ``label``."""

    def close(self) -> None:
        """Stop; what is complete stays."""


class Worker(Protocol):
    """A process that executes jobs; events of the selector carry it as data."""

    environment: ResolvedEnvironment

    def receive(self) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
        """Return answered jobs with their answers, and False if the worker has ended or answers nonsense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostJob:
    """An unfinished job of a worker that has ended, and whether it had begun."""

    job: Job
    began: bool


Worker_contra = TypeVar("Worker_contra", bound=Worker, contravariant=True)


class WorkerPool(Protocol[Worker_contra]):
    """Workers. Their answers are events of the selector, with the worker as data."""

    supply: Supply

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return the environments that can take a job now; ``waiting`` counts the jobs of each, by its digest."""

    def send(self, job: Job) -> None:
        """Send a job to a worker, in a folder filled for it, ``job.folder``.

        Raise LostBlob if an input is missing, or OSError where the machine fails. No folder is left then.
        """

    def release(self, job: Job) -> None:
        """Take back the folder of a job once its outputs are taken."""

    def renew(self, environment: ResolvedEnvironment) -> None:
        """End the idle workers of an environment: its next job gets a new one."""

    def remove_worker(self, worker: Worker_contra) -> tuple[str, list[LostJob]]:
        """Remove a worker that has ended or answers nonsense. Return its last output and its unfinished jobs."""

    def end_silent(self) -> None:
        """End workers that do not answer even after the time limit: stopped, or stuck in an import."""

    def close(self) -> None:
        """End all workers and everything that they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContext:
    """What a pool works with."""

    selector: selectors.BaseSelector
    #: Wakes the selector, from any thread, for events of the supply or of a worker.
    wake: Callable[[], object]
    #: The tools that actions use, by the digest of their environment. Workers import them beforehand.
    tools: Mapping[str, set[str]]
    home: Home
    #: A folder that is removed with the run, on the disk of the store.
    scratch: Path
    store: ActionCache
    #: Writes the small files of actions' folders, and of the store.
    files: FilePool
    limits: Limits


#: Makes the pool of a run, once an action has to be executed.
PoolFactory = Callable[[PoolContext], WorkerPool[Any]]


def tools_of(
    graph: Graph, environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment]
) -> Mapping[str, set[str]]:
    """Return the tools that actions of a graph use, by the digest of their environment."""
    tools: dict[str, set[str]] = defaultdict(set)
    for action in graph.actions.values():
        environment = environments[action.environment]
        if isinstance(environment, ResolvedEnvironment):
            tools[environment.digest].add(action.tool)
    return tools


def is_silent(worker: WorkerLink, limits: Limits) -> bool:
    """Return whether a worker does not answer even after the time limit."""
    if not worker.pending:
        return False
    longest = max(time_limit(job, limits) for job in worker.pending.values())
    return worker.heard < time.monotonic() - longest - _PATIENCE_S


def time_limit(job: Job, limits: Limits) -> float:
    """Return the seconds that a job may take."""
    return max(limits.timeout_s, _BUILDING_S) if job.action.tool in BUILDING else limits.timeout_s
