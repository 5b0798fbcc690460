"""Start worker processes on this machine, and give them jobs."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import WorkRequest, WorkResponse
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.folders import empty_folder, fill_folder, make_folder
from mlir_matrix.execute.job import Job, Task
from mlir_matrix.execute.worker_pool import (
    LostJob,
    PackageSupply,
    PoolContext,
    WorkerPool,
    time_limit,
)
from mlir_matrix.execute.worker_process import Preload, WorkerHandle, last_line, serving, worker_command


@dataclass(kw_only=True)
class WorkerProcess(WorkerHandle):
    """A worker as a process of this machine."""

    process: subprocess.Popen[bytes]
    log: Path

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, request: WorkRequest) -> None:
        """Send a request. Raise BrokenPipeError if the worker has ended."""
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), request.to_line())

    def receive(self) -> tuple[list[tuple[Any, WorkResponse]], bool]:
        chunk = os.read(self.fileno(), 1 << 16)
        return self.parse(chunk) if chunk else ([], False)

    def last_output(self) -> str:
        try:
            return last_line(self.log.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return ""

    def kill(self) -> None:
        self.process.terminate()
        # A stopped process receives signals only when it continues.
        self.process.send_signal(signal.SIGCONT)

    def hang_up(self) -> None:
        """Close the stream of requests: the worker then ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop(self) -> None:
        assert self.process.stdout is not None
        self.hang_up()
        for end in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(timeout=2)
                break
            except subprocess.TimeoutExpired:
                end()
        self.process.wait()
        self.process.stdout.close()


def start_worker(
    environment: ResolvedEnvironment,
    preload: Preload,
    *,
    store: Path,
    bytecode: Path,
    scratch: Path,
    devices: Iterable[str] = (),
) -> WorkerProcess:
    """Start the worker of an environment. It imports ``preload`` and then answers requests."""
    command = worker_command(environment, store=store, bytecode=bytecode, arguments=serving(preload, devices))
    log = scratch / f"worker-{environment.name}.log"
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=scratch,
            env={**CLEAN_ENVIRONMENT, "HOME": str(scratch), "TMPDIR": str(scratch)},
            # A new session: the terminal sends Ctrl-C only to this process, which then ends the workers.
            start_new_session=True,
        )
    return WorkerProcess(environment=environment, process=process, log=log)


class LocalPool(WorkerPool[WorkerProcess]):
    """Worker processes of this machine, one per environment. Each forks for every job."""

    most_actions = 100

    def __init__(self, context: PoolContext, devices: Sequence[str] = ()) -> None:
        """Make an empty pool. ``devices``: those that actions may use if they ask for them."""
        super().__init__(context, PackageSupply(context.home, context.wake))
        self._devices = devices
        self._workers: dict[str, WorkerProcess] = {}

    def workers(self) -> Sequence[WorkerProcess]:
        return [*self._workers.values()]

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return the environments whose worker is warm, or has no job yet."""
        workers = {digest: self._workers.get(digest) for digest in waiting}
        return [digest for digest, worker in workers.items() if worker is None or worker.warm or not worker.pending]

    def send(self, job: Job, task: Task) -> None:
        limits = self._context.limits
        worker = self._worker(job.environment)
        job.folder = make_folder(self._context.scratch)
        try:
            fill_folder(job.folder, task.prepared, self._context.store, job.copies)
            request = worker.request(
                job.folder,
                job,
                timeout_s=time_limit(task.action, limits),
                memory_mb=limits.memory_mb,
                actions=len(job.actions),
            )
            # The selector reports the end of a worker, once.
            with suppress(BrokenPipeError):
                worker.send(request)
        except OSError:
            remove_folder(job.folder)
            raise

    def proceed(self, job: Job, task: Task) -> None:
        empty_folder(job.folder)
        fill_folder(job.folder, task.prepared, self._context.store)
        self._continue(job, proceed=True)

    def cancel(self, job: Job) -> None:
        self._continue(job, cancel=True)

    def _continue(self, job: Job, *, proceed: bool = False, cancel: bool = False) -> None:
        worker = self._workers[job.environment.digest]
        number = next(number for number, pending in worker.pending.items() if pending is job)
        with suppress(BrokenPipeError):
            worker.send(WorkRequest(request_id=number, proceed=proceed, cancel=cancel))

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

    def release(self, job: Job) -> None:
        remove_folder(job.folder)

    def renew(self, environment: ResolvedEnvironment) -> None:
        if environment.digest in self._workers:
            self.remove_worker(self._workers[environment.digest])

    def remove_worker(self, worker: WorkerProcess) -> tuple[str, list[LostJob]]:
        del self._workers[worker.environment.digest]
        return self._end(worker)

    def close(self) -> None:
        for worker in self.workers():
            worker.hang_up()
        for worker in self.workers():
            worker.stop()
