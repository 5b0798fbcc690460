"""The workers of a run: one an environment, each started when its environment first has something to do."""

from __future__ import annotations

import selectors
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.job import BUILDING, Job, Limits
from mlir_matrix.execute.workers import WorkerProcess, start_worker
from mlir_matrix.home import Home
from mlir_matrix.plan.graph import Graph

#: Seconds beyond an action's limit after which a worker that says nothing at all is ended: it may have been importing.
_PATIENCE_S = 120.0
#: What building what is ours may take. Seconds.
_BUILDING_S = 1800.0


def tools_of(
    graph: Graph, environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment]
) -> Mapping[str, set[str]]:
    """The tools that actions of a graph use, by the digest of the environment: what its worker imports beforehand."""
    tools: dict[str, set[str]] = defaultdict(set)
    for action in graph.actions.values():
        environment = environments[action.environment]
        if isinstance(environment, ResolvedEnvironment):
            tools[environment.digest].add(action.tool)
    return tools


class Pool:
    """Sends jobs to workers; their answers are events of ``selector``, with the worker as data."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        tools: Mapping[str, set[str]],
        *,
        home: Home,
        scratch: Path,
        limits: Limits,
    ) -> None:
        self._selector = selector
        self._tools = tools
        self._home = home
        self._scratch = scratch
        self._limits = limits
        self._workers: dict[str, WorkerProcess] = {}
        self._serial = 0

    def can_take(self, environment: ResolvedEnvironment) -> bool:
        """Whether a job of this environment would be begun at once, and not after somebody else's import."""
        worker = self._workers.get(environment.digest)
        return worker is None or worker.warm or not worker.pending

    def send(self, job: Job) -> None:
        """Have a job executed in its folder. An OSError is the machine's: there is no worker to be had."""
        worker = self._worker(job.environment)
        self._serial += 1
        try:
            memory = self._limits.memory_mb
            worker.send(self._serial, job.folder, job, timeout_s=self._timeout(job), memory_mb=memory)
        except BrokenPipeError:
            # The end of its answers tells the same, once.
            return

    def _worker(self, environment: ResolvedEnvironment) -> WorkerProcess:
        worker = self._workers.get(environment.digest)
        if worker is None:
            worker = start_worker(
                environment,
                sorted(self._tools[environment.digest]),
                store=self._home.packages,
                bytecode=self._home.bytecode,
                scratch=self._scratch,
            )
            self._workers[environment.digest] = worker
            self._selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        return worker

    def bury(self, worker: WorkerProcess) -> tuple[str, list[Job]]:
        """Let go of a worker that is gone or makes no sense: its last words, and the jobs that it leaves behind."""
        self._selector.unregister(worker.fileno())
        del self._workers[worker.environment.digest]
        words = worker.last_words()
        worker.stop()
        return words, list(worker.pending.values())

    def end_silent(self) -> None:
        """End workers that do not even say that an action took too long: stopped, or stuck in an import."""
        oldest = time.monotonic() - self._limits.timeout_s - _PATIENCE_S
        for worker in self._workers.values():
            if worker.pending and worker.heard < oldest:
                longest = max(map(self._timeout, worker.pending.values()))
                if worker.heard < oldest + self._limits.timeout_s - longest:
                    worker.kill()

    def _timeout(self, job: Job) -> float:
        """Seconds that a job may take."""
        limit = self._limits.timeout_s
        return max(limit, _BUILDING_S) if job.action.tool in BUILDING else limit

    def close(self) -> None:
        """End all workers and, with them, everything that they run."""
        for worker in self._workers.values():
            worker.hang_up()
        for worker in self._workers.values():
            worker.stop()
