"""Worker processes of this machine, and the packages that they need."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mlir_matrix.actions.runtime.child import LOG_FILE
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.events import PackageProgress
from mlir_matrix.execute.job import Job
from mlir_matrix.execute.sandbox import Folders
from mlir_matrix.execute.worker_pool import LostJob, PoolContext, Supply, is_silent, time_limit
from mlir_matrix.execute.worker_process import WorkerProcess, start_worker
from mlir_matrix.paths import Home

if TYPE_CHECKING:
    from mlir_matrix.environments.install.installer import Installer


class PackageSupply:
    """Installs missing packages in threads and knows which environments are complete."""

    def __init__(self, home: Home, wake: Callable[[], object]) -> None:
        """``wake`` is called in an installer's thread when there is an event to take."""
        self._packages = home.packages
        self._artifacts = home.artifacts
        self._wake = wake
        self._events: deque[PackageProgress] = deque()
        self._installer: Installer | None = None
        self._complete: set[str] = set()

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Install what these environments lack."""
        wanted = [environment for environment in environments if environment.missing(self._packages)]
        if not wanted:
            return
        if self._installer is None:
            from mlir_matrix.environments.fetch.artifacts import Artifacts
            from mlir_matrix.environments.install.installer import Installer

            self._installer = Installer(self._packages, self._note, artifacts=Artifacts(self._artifacts))
        # Small environments first: their verdicts come while the large ones are downloaded.
        self._installer.request(sorted(wanted, key=lambda environment: environment.size))

    def _note(self, progress: PackageProgress) -> None:
        self._events.append(progress)
        self._wake()

    def news(self) -> Iterator[PackageProgress]:
        """Yield the events since the last call."""
        while self._events:
            yield self._events.popleft()

    def has(self, environment: ResolvedEnvironment) -> bool:
        """Return whether all packages of an environment are installed."""
        if environment.digest not in self._complete and not environment.missing(self._packages):
            self._complete.add(environment.digest)
        return environment.digest in self._complete

    def lacks(self, environment: ResolvedEnvironment, label: str) -> bool:
        """Return whether an environment needs the package that events call ``label``, and does not have it."""
        return any(unit.label == label for unit in environment.missing(self._packages))

    def close(self) -> None:
        """Stop installing; complete packages stay."""
        if self._installer is not None:
            self._installer.close()


class LocalPool:
    """Worker processes of this machine, one per environment. Each forks for every job."""

    def __init__(self, context: PoolContext, devices: Sequence[str] = ()) -> None:
        """``devices``: those that the operator grants to actions that ask for them."""
        self._context, self._devices = context, devices
        self.supply: Supply = PackageSupply(context.home, context.wake)
        self._folders = Folders(context.scratch, context.files)
        self._workers: dict[str, WorkerProcess] = {}
        self._serial = 0

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return the environments in which a job would begin at once, not after the imports of another worker."""
        return [digest for digest in waiting if self._can_take(digest)]

    def _can_take(self, digest: str) -> bool:
        worker = self._workers.get(digest)
        return worker is None or worker.warm or not worker.pending

    def send(self, job: Job) -> None:
        """Send a job to its worker, with a folder of its own."""
        job.folder = self._folders.take()
        try:
            self._folders.fill(job.folder, job.prepared, self._context.store, job.copies)
            self._pass_on(job)
        except OSError:
            remove_folder(job.folder)
            raise

    def _pass_on(self, job: Job) -> None:
        worker, limits = self._worker(job.environment), self._context.limits
        self._serial += 1
        try:
            worker.send(self._serial, job.folder, job, timeout_s=time_limit(job, limits), memory_mb=limits.memory_mb)
        except BrokenPipeError:
            # The end of its answers is reported once, by the selector.
            return

    def _worker(self, environment: ResolvedEnvironment) -> WorkerProcess:
        worker = self._workers.get(environment.digest)
        if worker is None:
            worker = start_worker(
                environment,
                self._context.tools[environment.digest],
                store=self._context.home.packages,
                bytecode=self._context.home.bytecode,
                scratch=self._context.scratch,
                devices=self._devices,
            )
            self._workers[environment.digest] = worker
            self._context.selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        return worker

    def release(self, job: Job) -> None:
        """Take back the folder of a job."""
        self._folders.give_back(job.folder)

    def renew(self, environment: ResolvedEnvironment) -> None:
        """End the idle worker of an environment."""
        if environment.digest in self._workers:
            self.remove_worker(self._workers[environment.digest])

    def remove_worker(self, worker: WorkerProcess) -> tuple[str, list[LostJob]]:
        """Remove a worker that has ended or answers nonsense. Return its last output and its unfinished jobs."""
        self._context.selector.unregister(worker.fileno())
        del self._workers[worker.environment.digest]
        words = worker.last_words()
        worker.stop()
        left = []
        for job in worker.pending.values():
            left.append(LostJob(job=job, began=os.path.exists(f"{job.folder}/{LOG_FILE}")))
            remove_folder(job.folder)
        return words, left

    def end_silent(self) -> None:
        """End workers that do not answer even after the time limit: stopped, or stuck in an import."""
        for worker in self._workers.values():
            if is_silent(worker, self._context.limits):
                worker.kill()

    def close(self) -> None:
        """End all workers and everything that they run."""
        for worker in self._workers.values():
            worker.hang_up()
        for worker in self._workers.values():
            worker.stop()
