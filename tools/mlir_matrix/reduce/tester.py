"""Test candidates on all cores, the likely next ones ahead of time, and remember each in a log."""

from __future__ import annotations

import json
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.events import Listener, Tick
from mlir_matrix.base.files import append_line, unwritable
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import counted
from mlir_matrix.environments.scratch import make_scratch, new_scratch
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.behaviours import Predicate
from mlir_matrix.reduce.lines import Lines
from mlir_matrix.reduce.workers import Workers
from mlir_matrix.reduction.search import Candidate
from mlir_matrix.reduction.tree import text_of

#: Characters of a refusal that the log keeps.
_LONGEST = 300
R = TypeVar("R")
T = TypeVar("T", Candidate, Lines)


class Progress:
    """The size of the best candidate so far, and how many were tested."""

    def __init__(self) -> None:
        self.operations = 0
        self.tested = 0
        #: Those of them that an earlier process has tested.
        self.known = 0
        self._began = 0.0

    def note(self, operations: int) -> None:
        """Take the size of the best candidate so far."""
        self._began = self._began or time.monotonic()
        self.operations = operations

    def words(self) -> str:
        """Return the progress in a line; empty before it begins."""
        if not self._began:
            return ""
        seconds = time.monotonic() - self._began
        rate = f", {(self.tested - self.known) / seconds:.0f} a second" if seconds > 1 else ""
        return f"{counted(self.operations, 'operation')} left; {counted(self.tested, 'candidate')} tested{rate}"


class TestedCandidate:
    """A candidate as it is tested."""

    def __init__(self, candidate: Candidate | None, text: str, formulas: Mapping[str, str]) -> None:
        """``candidate``: None for a text that is no module."""
        self.candidate, self.text = candidate, text
        #: The digest of its text and its inputs.
        self.key = digest_value([text, sorted(formulas.items())])[:16]


class ParallelTester:
    """Finds the first of some candidates that shows a behaviour (``reduction.search.Tester``)."""

    def __init__(
        self,
        behaviour: Predicate,
        pool: WorkerThreads,
        *,
        log: Path,
        reduction: str,
        until: float,
        accepted: Callable[[Candidate | Lines], object],
        progress: Progress,
        listener: Listener,
    ) -> None:
        """``log``: what is known already, and where more is written. ``until``: the end by the monotonic clock.

        ``reduction``: the digest of the program and its behaviour, by which lines of the log are told from those of others.
        """
        self._behaviour, self._pool, self._until, self._accepted = behaviour, pool, until, accepted
        self._log, self._reduction, self._progress, self._listener = log, reduction, progress, listener
        #: Whether time was up before all candidates were tested.
        self.stopped = False
        self._known = read_tried(log, reduction)
        progress.tested += len(self._known)
        progress.known += len(self._known)

    def first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """Return the first candidate that shows the behaviour; None if none does, or time is up. Raise InfrastructureError."""
        return self._first(
            candidates, lambda candidate: TestedCandidate(candidate, text_of(candidate.module), candidate.formulas)
        )

    def first_text(self, candidates: Iterable[Lines]) -> Lines | None:
        """Return the first text that shows the behaviour, as ``first``."""
        return self._first(candidates, lambda lines: TestedCandidate(None, lines.text, {}))

    def _first(self, candidates: Iterable[T], tried_as: Callable[[T], TestedCandidate]) -> T | None:
        rest = iter(candidates)
        waiting: deque[tuple[T, TestedCandidate, Future[str]]] = deque()
        while True:
            while len(waiting) < self._pool.size and not self.stopped:
                candidate = next(rest, None)
                if candidate is None:
                    break
                tried = tried_as(candidate)
                # What an earlier process has found takes no time, so that a small budget never loses it.
                if tried.key not in self._known and time.monotonic() > self._until:
                    self.stopped = True
                elif not self._known.get(tried.key):
                    waiting.append((candidate, tried, self._submit(tried)))
            if not waiting:
                return None
            candidate, tried, future = waiting.popleft()
            refusal = future.result()
            self._note(candidate.edit, tried, refusal)
            if not refusal:
                self._accepted(candidate)
                self._keep(waiting)
                return candidate

    def _submit(self, tried: TestedCandidate) -> Future[str]:
        if tried.key in self._known:
            done: Future[str] = Future()
            done.set_result(self._known[tried.key])
            return done
        return self._pool.submit(lambda workers: self._behaviour.refusal(tried.candidate, tried.text, workers))

    def _keep(self, waiting: Iterable[tuple[T, TestedCandidate, Future[str]]]) -> None:
        """Note what was found ahead of time. What has not begun is not needed any more."""
        for candidate, tried, future in waiting:
            if not future.cancel() and future.done() and future.exception() is None:
                self._note(candidate.edit, tried, future.result())

    def _note(self, edit: str, tried: TestedCandidate, refusal: str) -> None:
        if tried.key in self._known:
            return
        self._progress.tested += 1
        self._listener(Tick(waiting=0))
        self._known[tried.key] = refusal
        line = {"reduction": self._reduction, "candidate": tried.key, "edit": edit, "refusal": refusal[:_LONGEST]}
        append_line(self._log, json.dumps(line).encode() + b"\n")


def read_tried(log: Path, reduction: str) -> dict[str, str]:
    """Return the refusals of the candidates of a reduction. An incomplete line of a killed process does not count.

    Raise InfrastructureError if the log cannot be read.
    """
    try:
        lines = log.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unwritable(f"the log {log} cannot be read", error) from None
    found = {}
    for line in lines:
        try:
            tried = json.loads(line)
            if tried["reduction"] == reduction:
                found[str(tried["candidate"])] = str(tried["refusal"])
        except (ValueError, LookupError, TypeError):
            # A line that a killed process began.
            continue
    return found


class WorkerThreads:
    """Threads, each with warm workers of its own."""

    def __init__(self, home: Home, scratch: Path, limits: Limits) -> None:
        self.size = limits.jobs
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="candidate")
        folders = [make_scratch(scratch / f"candidates-{number}", home) for number in range(self.size)]
        self._workers = [Workers(home, folder, limits) for folder in folders]
        self._free: queue.SimpleQueue[Workers] = queue.SimpleQueue()
        for each in self._workers:
            self._free.put(each)

    def submit(self, work: Callable[[Workers], R]) -> Future[R]:
        """Have a thread do something with its workers."""
        return self._threads.submit(self._run, work)

    def call(self, work: Callable[[Workers], R]) -> R:
        """Do something with the workers of a thread, and wait for it."""
        return self.submit(work).result()

    def _run(self, work: Callable[[Workers], R]) -> R:
        workers = self._free.get()
        try:
            return work(workers)
        finally:
            self._free.put(workers)

    def close(self) -> None:
        """End the workers, also after a second Ctrl-C while candidates run."""
        try:
            self._threads.shutdown(cancel_futures=True)
        finally:
            with ExitStack() as stack:
                for each in self._workers:
                    stack.callback(each.close)


@contextmanager
def worker_threads(home: Home, limits: Limits) -> Iterator[WorkerThreads]:
    """Start threads with workers, and end them. Raise InfrastructureError."""
    scratch = make_scratch(new_scratch(home), home)
    try:
        with closing(WorkerThreads(home, scratch, limits)) as threads:
            yield threads
    finally:
        remove_folder(os.fspath(scratch))
