"""What the scheduler needs of those who execute: which environments are ready, and workers that take one job after another."""

from __future__ import annotations

import selectors
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import Store
from mlir_matrix.execute.job import BUILDING, Job, Limits
from mlir_matrix.execute.worker_process import Talk
from mlir_matrix.paths import Home
from mlir_matrix.plan.graph import Graph

if TYPE_CHECKING:
    from mlir_matrix.environments.package import PackageProgress

#: What building what is ours may take. Seconds.
_BUILDING_S = 1800.0
#: Seconds beyond an action's limit after which a worker that says nothing at all is ended: it may have been importing.
_PATIENCE_S = 120.0


class Supply(Protocol):
    """Brings what environments need, beside the scheduler's loop."""

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Ask for what these environments lack."""

    def news(self) -> Iterator[PackageProgress]:
        """What has happened since this was last asked."""

    def has(self, environment: ResolvedEnvironment) -> bool:
        """Whether an environment is complete."""

    def lacks(self, environment: ResolvedEnvironment, label: str) -> bool:
        """Whether an environment needs what progress calls ``label``, and does not have it."""

    def close(self) -> None:
        """Stop what is going on; what is complete stays."""


class Worker(Protocol):
    """A process that executes jobs, as events of the selector name it."""

    environment: ResolvedEnvironment

    def receive(self) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
        """Jobs that it has answered, with the answers, and whether it is still there and makes sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A job that a worker left behind when it ended, and whether it had begun."""

    job: Job
    began: bool


Worker_contra = TypeVar("Worker_contra", bound=Worker, contravariant=True)


class Crew(Protocol[Worker_contra]):
    """Workers. Their answers are events of the selector, with the worker as data."""

    supply: Supply

    def able(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Which of these environments may be given a job now; ``waiting``: how many jobs each has, by its digest."""

    def send(self, job: Job) -> None:
        """Have a job executed in a folder that is filled for it, ``job.folder``.

        Raises LostBlob where an input is not there, any other OSError where the machine fails; no folder is left then.
        """

    def release(self, job: Job) -> None:
        """Take the folder of a job back once its outputs are taken."""

    def renew(self, environment: ResolvedEnvironment) -> None:
        """End the workers of an environment, which are idle: its next job gets a new one."""

    def remove_worker(self, worker: Worker_contra) -> tuple[str, list[Left]]:
        """Let go of a worker that is gone or makes no sense: its last words, and the jobs that it leaves behind."""

    def end_silent(self) -> None:
        """End workers that do not even say that an action took too long: stopped, or stuck in an import."""

    def close(self) -> None:
        """End all workers and, with them, everything that they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a crew is given to work with."""

    selector: selectors.BaseSelector
    #: Wakes the selector from any thread: there is news of the supply, or of a worker.
    wake: Callable[[], object]
    #: The tools that actions use, by the digest of their environment: what its workers import beforehand.
    tools: Mapping[str, set[str]]
    home: Home
    #: A folder that goes with the run, on the disk of the store.
    scratch: Path
    store: Store
    limits: Limits


#: Makes the crew of a run, when it turns out that something has to be executed.
Equip = Callable[[Place], Crew[Any]]


def tools_of(
    graph: Graph, environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment]
) -> Mapping[str, set[str]]:
    """The tools that actions of a graph use, by the digest of their environment."""
    tools: dict[str, set[str]] = defaultdict(set)
    for action in graph.actions.values():
        environment = environments[action.environment]
        if isinstance(environment, ResolvedEnvironment):
            tools[environment.digest].add(action.tool)
    return tools


def is_silent(worker: Talk, limits: Limits) -> bool:
    """Whether a worker does not even say that an action took too long: stopped, or stuck in an import."""
    if not worker.pending:
        return False
    longest = max(time_limit(job, limits) for job in worker.pending.values())
    return worker.heard < time.monotonic() - longest - _PATIENCE_S


def time_limit(job: Job, limits: Limits) -> float:
    """Seconds that a job may take."""
    return max(limits.timeout_s, _BUILDING_S) if job.action.tool in BUILDING else limits.timeout_s
