"""The local executor: every distinct action once, on all cores, in warm workers, each in an environment of its own.

One thread drives everything. Answers of workers, packages that arrived and the display's tick are events of one loop;
only installations run in threads. Whatever is finished is kept at once, so ending the run at any moment loses nothing.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from mlir_matrix.actions.child import LOG_FILE, failure
from mlir_matrix.digest import digest_file
from mlir_matrix.environments.install import Installer, PackageProgress
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.errors import CatalogError, InfrastructureError
from mlir_matrix.execute.frontier import Frontier
from mlir_matrix.execute.keys import action_key, input_names
from mlir_matrix.execute.sandbox import Prepared, collect, is_kept, make_folder
from mlir_matrix.execute.store import LostBlob, Result, Store, remove_folder, sweep_scratch
from mlir_matrix.execute.workers import WorkerProcess, start_worker
from mlir_matrix.home import Home
from mlir_matrix.plan.graph import Action, File, Graph, Produced

_TICK_S = 0.25
#: An action whose worker died is tried once more, alone, to see whether it was the one.
_ATTEMPTS = 2
#: Seconds beyond an action's limit after which a worker that says nothing at all is ended: it may have been importing.
_PATIENCE_S = 120.0
#: Tools that build what is ours, not what is under test: no limit on tests makes them fail. Seconds.
_BUILDING = frozenset({"link_kit"})
_BUILDING_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one action may use, and how many run at a time."""

    jobs: int
    timeout_s: float = 120.0
    memory_mb: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An action that needs no more work: its result, and whether it came from the cache."""

    result: Result
    cached: bool
    #: True where this action itself was executed, rather than failed before it began or found to be another's twin.
    executed: bool = False


class Observer(Protocol):
    """Who watches a run. ``action_done`` returns True to stop it."""

    def action_started(self, action: Action) -> None: ...
    def action_done(self, action: Action, done: Done) -> bool: ...
    def package(self, progress: PackageProgress) -> None: ...
    def tick(self) -> None: ...


@dataclass
class _Job:
    """An action that is being executed, with the others that turned out to be the same one."""

    action: Action
    prepared: Prepared
    environment: ResolvedEnvironment
    folder: str = ""
    twins: list[Action] = field(default_factory=list)
    attempts: int = 0


class LocalExecutor:
    """Runs a graph on this machine."""

    def __init__(
        self,
        graph: Graph,
        *,
        roots: Sequence[Path],
        environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
        home: Home,
        limits: Limits,
        observer: Observer,
    ) -> None:
        self._graph = graph
        self._roots = roots
        self._environments = environments
        self._home = home
        self._limits = limits
        self._observer = observer
        self._store = Store(home.actions)
        self._frontier = Frontier(graph)
        self._files: dict[Path, str | None] = {}
        self._jobs: dict[str, _Job] = {}
        self._workers: dict[str, WorkerProcess] = {}
        self._alone: deque[_Job] = deque()
        self._broken: dict[str, str] = {}
        #: Actions whose cached outputs were found damaged, and what waits for them to be executed again.
        self._redone: dict[str, list[str]] = {}
        self._events: deque[PackageProgress] = deque()
        self._selector = selectors.DefaultSelector()
        self._installer: Installer | None = None
        self._scratch = home.scratch / f"{os.getpid()}-{time.monotonic_ns()}"
        self._serial = 0
        self._running = 0
        self._stopping = False
        self._present: set[str] = set()
        self.done: dict[str, Done] = {}

    def run(self) -> dict[str, Done]:
        """Execute; returns what was done, which is everything unless an observer stopped the run."""
        self._advance(self._frontier.first())
        if not self._jobs or self._stopping:
            return self.done
        wake_read, self._wake = os.pipe()
        try:
            self._store.prepare()
            self._prepare_scratch()
            self._selector.register(wake_read, selectors.EVENT_READ, None)
            self._install()
            self._dispatch()
            while self._jobs and not self._stopping:
                self._turn(wake_read)
        finally:
            self._close()
            os.close(wake_read)
        return self.done

    # Preparing ---------------------------------------------------------------------------------------------------

    def _prepare_scratch(self) -> None:
        sweep_scratch(self._home.scratch)
        try:
            self._scratch.mkdir(parents=True)
            self._home.packages.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InfrastructureError(f"the folder for running actions cannot be made: {error}") from error

    def _install(self) -> None:
        """Ask for what is missing of the environments that have work, those of the shortest roads first."""
        needed = {job.action.environment for job in self._jobs.values()}
        # What waits may need more than what is ready: every environment of an action that is not done.
        needed |= {action.environment for key, action in self._graph.actions.items() if key not in self.done}
        wanted = [found for name in needed if isinstance(found := self._environments[name], ResolvedEnvironment)]
        wanted = [environment for environment in wanted if environment.missing(self._home.packages)]
        if wanted:
            self._installer = self._installer or Installer(self._home.packages, self._on_package)
            # Small environments first: the first verdicts then come while the large ones are on their way.
            self._installer.request(sorted(wanted, key=lambda environment: len(environment.packages)))

    def _on_package(self, progress: PackageProgress) -> None:
        """Called in an installer's thread."""
        self._events.append(progress)
        os.write(self._wake, b"x")

    # Advancing over what needs no execution ------------------------------------------------------------------------

    def _advance(self, ready: list[str]) -> None:
        while ready and not self._stopping:
            action = self._graph.actions[ready.pop()]
            done = self._without_execution(action)
            if done is not None:
                ready.extend(self._settle(action, done))

    def _settle(self, action: Action, done: Done) -> list[str]:
        self.done[action.id] = done
        try:
            if self._observer.action_done(action, done):
                self._stopping = True
        except LostBlob as lost:
            return self._redo(action, lost)
        return self._frontier.complete(action.id) + self._waiting_again(action)

    def _redo(self, action: Action, lost: LostBlob, *waiting: Action) -> list[str]:
        """What a known action made is damaged: execute it again, once, before those that are waiting for it."""
        if action.id in self._redone:
            reason = f"{lost}, and again after it was made anew"
            return [
                ready
                for each in waiting or (action,)
                for ready in self._settle(each, self._infrastructure(each, reason))
            ]
        self._redone[action.id] = [each.id for each in waiting]
        return [action.id]

    def _waiting_again(self, action: Action) -> list[str]:
        waiting = self._redone.get(action.id)
        if not waiting:
            return []
        self._redone[action.id] = []
        return waiting

    def _without_execution(self, action: Action) -> Done | None:
        """The result of an action that failed before it began, or is known; None once it is queued for execution."""
        for source in action.sources:
            upstream = self.done[source]
            if not upstream.result.ok:
                return Done(result=Result(outcome=upstream.result.outcome), cached=upstream.cached)
        environment = self._environments[action.environment]
        if isinstance(environment, UnavailableEnvironment):
            outcome = failure(action.stage, "skipped", f"this machine lacks what it needs: {environment.reason}")
            return Done(result=Result(outcome=outcome), cached=False)
        prepared = self._prepare(action, environment)
        known = self._store.find(prepared.key)
        if known is not None:
            return Done(result=known, cached=True)
        if prepared.key in self._jobs:
            self._jobs[prepared.key].twins.append(action)
            return None
        if environment.digest in self._broken:
            return self._infrastructure(action, self._broken[environment.digest])
        self._jobs[prepared.key] = _Job(action, prepared, environment)
        self._frontier.push(prepared.key, environment.digest, like=action.id)
        return None

    @staticmethod
    def _infrastructure(action: Action, reason: str) -> Done:
        return Done(result=Result(outcome=failure(action.stage, "infra-error", reason)), cached=False)

    def _prepare(self, action: Action, environment: ResolvedEnvironment) -> Prepared:
        names = input_names(action, self._graph)
        sources: dict[str, Path | str] = {}
        read = []
        for name, ref in action.inputs.items():
            if isinstance(ref, Produced):
                sources[name] = digest = self.done[ref.action].result.outputs[ref.output]
            else:
                path = self._roots[ref.root] / ref.path
                known = self._file_digest(path, ref)
                if known is None:
                    del names[name]
                    continue
                sources[name], digest = path, known
            read.append((name, names[name], digest))
        key = action_key(action, read, environment=environment.digest)
        digests = {name: digest for name, _, digest in read}
        return Prepared(key=key, action=action, names=names, sources=sources, digests=digests)

    def _file_digest(self, path: Path, ref: File) -> str | None:
        if path not in self._files:
            try:
                self._files[path] = digest_file(path)
            except OSError as error:
                if not ref.optional:
                    raise CatalogError(f"{ref.path}: cannot be read: {error.strerror}") from error
                self._files[path] = None
        return self._files[path]

    # The loop ----------------------------------------------------------------------------------------------------

    def _turn(self, wake: int) -> None:
        for key, _ in self._selector.select(_TICK_S):
            if key.data is None:
                os.read(wake, 4096)
                self._take_packages()
            else:
                self._take_answers(key.data)
        self._observer.tick()
        self._end_silent()
        self._dispatch()

    def _end_silent(self) -> None:
        """End workers that do not even say that an action took too long: stopped, or stuck in an import."""
        now = time.monotonic()
        for worker in self._workers.values():
            if worker.pending and now - worker.heard > _PATIENCE_S + max(map(self._timeout, worker.pending.values())):
                worker.kill()

    def _timeout(self, job: _Job) -> float:
        """Seconds that an action may take."""
        limit = self._limits.timeout_s
        return max(limit, _BUILDING_S) if job.action.tool in _BUILDING else limit

    def _take_packages(self) -> None:
        while self._events:
            progress = self._events.popleft()
            self._observer.package(progress)
            if progress.error:
                self._lose(progress)

    def _lose(self, progress: PackageProgress) -> None:
        """A package cannot be had: what needs it becomes an infra-error, everything else goes on."""
        for environment in self._environments.values():
            if isinstance(environment, ResolvedEnvironment) and any(
                f"{package.name} {package.version}" == progress.package
                for package in environment.missing(self._home.packages)
            ):
                self._break(environment, progress.error)

    def _break(self, environment: ResolvedEnvironment, reason: str) -> None:
        self._broken[environment.digest] = reason
        for key in self._frontier.drain(environment.digest):
            self._give_up(self._jobs[key], reason)

    def _give_up(self, job: _Job, reason: str) -> None:
        """The machine cannot execute this action."""
        del self._jobs[job.prepared.key]
        self._finish_job(job, self._infrastructure(job.action, reason))

    def _dispatch(self) -> None:
        while self._running < self._limits.jobs and not self._stopping:
            job = self._next_job()
            if job is None:
                return
            self._send(job)

    def _next_job(self) -> _Job | None:
        if self._alone:
            # Suspects run with nothing beside them, so that a dead worker has one explanation.
            return self._alone.popleft() if self._running == 0 else None
        usable = [digest for digest in self._frontier.demand() if self._usable(digest)]
        found = self._frontier.pop(usable)
        return self._jobs[found[0]] if found else None

    def _usable(self, digest: str) -> bool:
        worker = self._workers.get(digest)
        if worker is not None:
            # One request at a time until it has answered once: it may still be importing, and would hold up a core.
            return worker.warm or not worker.pending
        if digest not in self._present and not self._by_digest(digest).missing(self._home.packages):
            self._present.add(digest)
        return digest in self._present

    def _by_digest(self, digest: str) -> ResolvedEnvironment:
        return next(
            environment
            for environment in self._environments.values()
            if isinstance(environment, ResolvedEnvironment) and environment.digest == digest
        )

    def _send(self, job: _Job) -> None:
        self._serial += 1
        job.folder = str(self._scratch / str(self._serial))
        job.attempts += 1
        if job.environment.digest in self._broken:
            self._give_up(job, self._broken[job.environment.digest])
            return
        try:
            make_folder(job.folder, job.prepared, self._store)
            worker = self._worker(job.environment)
        except LostBlob as lost:
            self._find_again(job, lost)
            return
        except OSError as error:
            remove_folder(job.folder)
            self._give_up(job, f"the machine failed: {error}")
            return
        self._running += 1
        self._observer.action_started(job.action)
        try:
            worker.send(self._serial, job.folder, job, timeout_s=self._timeout(job), memory_mb=self._limits.memory_mb)
        except BrokenPipeError:
            # The end of its answers tells the same, once.
            return

    def _find_again(self, job: _Job, lost: LostBlob) -> None:
        """An input is damaged: have it made anew, then come back."""
        remove_folder(job.folder)
        del self._jobs[job.prepared.key]
        made_by = next(
            ref.action
            for ref in job.action.inputs.values()
            if isinstance(ref, Produced) and self.done[ref.action].result.outputs[ref.output] == lost.digest
        )
        self._advance(self._redo(self._graph.actions[made_by], lost, job.action, *job.twins))
        # What made it may be of an environment that nothing else in this run needs.
        self._install()

    def _worker(self, environment: ResolvedEnvironment) -> WorkerProcess:
        worker = self._workers.get(environment.digest)
        if worker is None:
            tools = {
                action.tool
                for action in self._graph.actions.values()
                if (found := self._environments[action.environment])
                and isinstance(found, ResolvedEnvironment)
                and found.digest == environment.digest
            }
            worker = start_worker(
                environment,
                sorted(tools),
                store=self._home.packages,
                bytecode=self._home.bytecode,
                scratch=self._scratch,
            )
            self._workers[environment.digest] = worker
            self._selector.register(worker.fileno(), selectors.EVENT_READ, (environment, worker))
        return worker

    def _take_answers(self, source: tuple[ResolvedEnvironment, WorkerProcess]) -> None:
        environment, worker = source
        answers, alive = worker.receive()
        for job, answer in answers:
            self._running -= 1
            done = self._collect(job, answer)
            del self._jobs[job.prepared.key]
            self._finish_job(job, done)
        if not alive:
            self._mourn(environment, worker)

    def _collect(self, job: _Job, answer: Mapping[str, Any]) -> Done:
        try:
            result = collect(job.folder, job.action, answer.get("usage", {}), self._store)
            if answer.get("exitCode"):
                return self._infrastructure(job.action, str(answer.get("output")))
            if is_kept(result.outcome):
                self._store.keep(job.prepared.key, result)
        except OSError as error:
            return self._infrastructure(job.action, f"the machine failed: {error}")
        return Done(result=result, cached=False, executed=True)

    def _finish_job(self, job: _Job, done: Done) -> None:
        ready = self._settle(job.action, done)
        for twin in job.twins:
            ready.extend(self._settle(twin, replace(done, executed=False)))
        self._advance(ready)

    def _mourn(self, environment: ResolvedEnvironment, worker: WorkerProcess) -> None:
        """A worker is gone. Whoever was with it is tried again alone; who is alone with it twice did it."""
        self._selector.unregister(worker.fileno())
        del self._workers[environment.digest]
        words = worker.last_words()
        worker.stop()
        for job in worker.pending.values():
            self._running -= 1
            began = os.path.exists(f"{job.folder}/{LOG_FILE}")
            remove_folder(job.folder)
            if job.attempts < _ATTEMPTS:
                self._alone.append(job)
            elif began:
                del self._jobs[job.prepared.key]
                reason = f"it ended the worker that ran it, twice (environment {environment.name})"
                outcome = failure(job.action.stage, "crashed", reason, words, signal="SIGKILL")
                self._finish_job(job, Done(result=Result(outcome=outcome), cached=False, executed=True))
            else:
                reason = f"the worker of environment {environment.name} does not start: {words or 'it says nothing'}"
                self._give_up(job, reason)
                self._break(environment, reason)

    def _close(self) -> None:
        if self._installer is not None:
            self._installer.close()
        for worker in self._workers.values():
            worker.stop()
        self._selector.close()
        os.close(self._wake)
        remove_folder(self._scratch)
