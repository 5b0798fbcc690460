"""Start worker processes on this machine, and give them jobs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
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
from mlir_matrix.execute.worker_process import Preload, Worker, last_line, serving, worker_command

#: How many processes may wait for a job that continues theirs, in addition to one for each parallel job of the run.
_MOST_WAITING = 4


@dataclass(kw_only=True)
class WorkerProcess(Worker):
    """A worker as a process of this machine."""

    process: subprocess.Popen[bytes]
    log: Path

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, folder: str, payload: Any, *, timeout_s: float, memory_mb: int, stay: bool = False) -> None:
        """Request the action in ``folder``. Raise BrokenPipeError if the worker has ended."""
        self._write(self.request_line(folder, payload, timeout_s=timeout_s, memory_mb=memory_mb, stay=stay))

    def end(self, folder: str) -> None:
        """End the process that waits in ``folder``. There is no answer."""
        self._write(json.dumps({"sandboxDir": folder, "end": True}).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), line)

    def receive(self) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
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
    """Worker processes of this machine, one per environment. Each forks for every job that does not continue another one."""

    def __init__(self, context: PoolContext, devices: Sequence[str] = ()) -> None:
        """Make an empty pool. ``devices``: those that actions may use if they ask for them."""
        super().__init__(context, PackageSupply(context.home, context.wake))
        self._devices = devices
        self._workers: dict[str, WorkerProcess] = {}
        #: By action: the environment, and the folder whose process waits for the job that continues it; the oldest first.
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
