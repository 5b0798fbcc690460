"""Worker processes of this machine."""

from __future__ import annotations

import selectors
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.job import Job
from mlir_matrix.execute.worker_pool import (
    LostJob,
    PackageSupply,
    PoolContext,
    WorkerPool,
    is_compilation,
    time_limit,
)
from mlir_matrix.execute.worker_process import WorkerProcess, start_worker

#: How many processes wait for a job that continues theirs, beside one for each job of the run.
_MOST_WAITING = 4


class LocalPool(WorkerPool[WorkerProcess]):
    """Worker processes of this machine, one per environment. Each forks for every job that does not continue another one."""

    def __init__(self, context: PoolContext, devices: Sequence[str] = ()) -> None:
        """``devices``: those that actions may use if they ask for them."""
        super().__init__(context, PackageSupply(context.home, context.wake))
        self._devices = devices
        self._workers: dict[str, WorkerProcess] = {}
        #: Folders whose process waits for the job that continues it, with their environment, by action; the oldest first.
        self._waiting: dict[str, tuple[str, str]] = {}

    def workers(self) -> Sequence[WorkerProcess]:
        return [*self._workers.values()]

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return the environments whose worker is warm, or has no job yet."""
        workers = {digest: self._workers.get(digest) for digest in waiting}
        return [digest for digest, worker in workers.items() if worker is None or worker.warm or not worker.pending]

    def send(self, job: Job) -> None:
        limits = self._context.limits
        worker = self._worker(job.environment)
        waiting = self._waiting_for(job)
        job.continues, job.waits = bool(waiting), False
        job.folder = waiting or self._folders.take()
        try:
            self._folders.fill(job.folder, job.prepared, self._context.store, job.copies)
            # The selector reports the end of a worker, once.
            with suppress(BrokenPipeError):
                worker.send(
                    job.folder,
                    job,
                    timeout_s=time_limit(job, limits),
                    memory_mb=limits.memory_mb,
                    stay=job.action.id in self._context.continued,
                )
        except OSError:
            if job.continues:
                self._end_waiting(job.environment.digest, job.folder)
            else:
                remove_folder(job.folder)
            raise

    def _worker(self, environment: ResolvedEnvironment) -> WorkerProcess:
        worker = self._workers.get(environment.digest)
        if worker is None:
            worker = start_worker(
                environment,
                self._context.preloads[environment.digest],
                store=self._context.home.packages,
                bytecode=self._context.home.bytecode,
                scratch=self._context.scratch,
                devices=self._devices,
            )
            self._workers[environment.digest] = worker
            self._context.selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        return worker

    def _waiting_for(self, job: Job) -> str:
        """Return the folder whose process waits for this job, if any."""
        for source in () if job.alone else job.action.sources:
            environment, folder = self._waiting.get(source, ("", ""))
            if environment == job.environment.digest and is_compilation(job.action):
                del self._waiting[source]
                return folder
        return ""

    def release(self, job: Job) -> None:
        if not job.waits:
            self._folders.give_back(job.folder)
            return
        if self._folders.empty(job.folder, in_use=True):
            self._waiting[job.action.id] = job.environment.digest, job.folder
            if len(self._waiting) > _MOST_WAITING + self._context.limits.jobs:
                digest, folder = self._waiting.pop(next(iter(self._waiting)))
                self._end_waiting(digest, folder)
        else:
            self._end_waiting(job.environment.digest, job.folder)

    def _end_waiting(self, environment: str, folder: str) -> None:
        worker = self._workers.get(environment)
        if worker is not None:
            with suppress(BrokenPipeError):
                worker.end(folder)
        remove_folder(folder)

    def renew(self, environment: ResolvedEnvironment) -> None:
        if environment.digest in self._workers:
            self.remove_worker(self._workers[environment.digest])

    def remove_worker(self, worker: WorkerProcess) -> tuple[str, list[LostJob]]:
        del self._workers[worker.environment.digest]
        self._waiting = {action: each for action, each in self._waiting.items() if each[0] != worker.environment.digest}
        words, left = self._end(worker)
        for job, _ in left:
            remove_folder(job.folder)
        return words, left

    def close(self) -> None:
        for worker in self.workers():
            worker.hang_up()
        for worker in self.workers():
            worker.stop()
