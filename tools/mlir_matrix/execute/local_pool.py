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


class LocalPool:
    """Processes of this machine; each forks for every job that it is sent."""

    def __init__(self, place: PoolContext, devices: Sequence[str] = ()) -> None:
        """``devices``: those that the operator grants to actions that ask for them."""
        self._place, self._devices = place, devices
        self.supply: Supply = PackageSupply(place.home, place.wake)
        self._folders = Folders(place.scratch, place.files)
        self._workers: dict[str, WorkerProcess] = {}
        self._serial = 0

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Those in which a job would be begun at once, and not after somebody else's import."""
        return [digest for digest in waiting if self._can_take(digest)]

    def _can_take(self, digest: str) -> bool:
        worker = self._workers.get(digest)
        return worker is None or worker.warm or not worker.pending

    def send(self, job: Job) -> None:
        """Have a job executed in a folder of its own."""
        job.folder = self._folders.take()
        try:
            self._folders.fill(job.folder, job.prepared, self._place.store, job.copies)
            self._pass_on(job)
        except OSError:
            remove_folder(job.folder)
            raise

    def _pass_on(self, job: Job) -> None:
        worker, limits = self._worker(job.environment), self._place.limits
        self._serial += 1
        try:
            worker.send(self._serial, job.folder, job, timeout_s=time_limit(job, limits), memory_mb=limits.memory_mb)
        except BrokenPipeError:
            # The end of its answers tells the same, once.
            return

    def _worker(self, environment: ResolvedEnvironment) -> WorkerProcess:
        worker = self._workers.get(environment.digest)
        if worker is None:
            worker = start_worker(
                environment,
                self._place.tools[environment.digest],
                store=self._place.home.packages,
                bytecode=self._place.home.bytecode,
                scratch=self._place.scratch,
                devices=self._devices,
            )
            self._workers[environment.digest] = worker
            self._place.selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        return worker

    def release(self, job: Job) -> None:
        """Take its folder back."""
        self._folders.give_back(job.folder)

    def renew(self, environment: ResolvedEnvironment) -> None:
        """End the worker of an environment, which is idle."""
        if environment.digest in self._workers:
            self.remove_worker(self._workers[environment.digest])

    def remove_worker(self, worker: WorkerProcess) -> tuple[str, list[LostJob]]:
        """Let go of a worker that is gone or makes no sense: its last words, and the jobs that it leaves behind."""
        self._place.selector.unregister(worker.fileno())
        del self._workers[worker.environment.digest]
        words = worker.last_words()
        worker.stop()
        left = []
        for job in worker.pending.values():
            left.append(LostJob(job=job, began=os.path.exists(f"{job.folder}/{LOG_FILE}")))
            remove_folder(job.folder)
        return words, left

    def end_silent(self) -> None:
        """End workers that do not even say that an action took too long: stopped, or stuck in an import."""
        for worker in self._workers.values():
            if is_silent(worker, self._place.limits):
                worker.kill()

    def close(self) -> None:
        """End all workers and, with them, everything that they run."""
        for worker in self._workers.values():
            worker.hang_up()
        for worker in self._workers.values():
            worker.stop()
