"""Run a graph: every distinct action once, on all cores, by a pool of warm workers.

One thread runs a loop. Its events are answers of workers, progress of packages and a tick for the display. Other threads
only install packages, and copy and hash large files. The pool decides where workers run and which folder an action gets.
The result of every action is cached at once, so the run can be killed at any time.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.contract import WorkResponse
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import failure
from mlir_matrix.actions.runtime.collect import DamagedFolderError, remove_folder
from mlir_matrix.actions.runtime.running import BUSY
from mlir_matrix.base.errors import DiskFullError, InfrastructureError
from mlir_matrix.base.events import Listener, Note, Tick, ignore
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.environments.scratch import make_scratch, new_scratch
from mlir_matrix.environments.state import no_room, shortage
from mlir_matrix.execute.action_cache import ActionCache, LostBlob, Result
from mlir_matrix.execute.c_libraries import CLibraries
from mlir_matrix.execute.folders import (
    check_room,
    copy_inputs,
    hash_outputs,
    large_inputs,
    large_outputs,
)
from mlir_matrix.execute.job import (
    ActionDone,
    ActionStarted,
    Done,
    Job,
    NotExecuted,
    Task,
    infra_error,
    inherited_failure,
    unavailable,
)
from mlir_matrix.execute.large_files import Background
from mlir_matrix.execute.locks import KeyLocks
from mlir_matrix.execute.lookup import Lookup
from mlir_matrix.execute.queues import ATTEMPTS, ReadyQueue, Retries, WaitingTasks
from mlir_matrix.execute.worker_pool import PoolContext, PoolFactory, is_compilation, preloads_of, time_limit
from mlir_matrix.execute.worker_process import WorkerHandle
from mlir_matrix.plan.graph import Graph, PlannedAction, Produced
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from concurrent.futures import Future

_TICK_S = 0.25


class Scheduler:
    """Runs a graph with the workers of a pool."""

    def __init__(
        self,
        graph: Graph,
        *,
        roots: Sequence[Path],
        environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
        home: Home,
        limits: Limits,
        make_pool: PoolFactory,
    ) -> None:
        self._graph = graph
        self._environments = environments
        self._home = home
        self._limits = limits
        self._listener: Listener = ignore
        self._pool_factory = make_pool
        self._by_digest = {environment.digest: environment for environment in self._resolved(environments)}
        self._scratch = new_scratch(home)
        self._store = ActionCache(home.actions)
        self._libraries = CLibraries(home.packages, environments, self._store)
        self._lookup = Lookup(graph, roots, self._store, memory_mb=limits.memory_mb, libraries=self._libraries)
        self._ready = ReadyQueue(graph, limits.jobs)
        #: Unfinished tasks, by key.
        self._tasks: dict[str, Task] = {}
        #: The job that waits for its next action to become ready, by that action.
        self._next: dict[str, Job] = {}
        self._retries = Retries()
        #: How actions of environments that cannot be used end, and why, by digest.
        self._broken: dict[str, tuple[NotExecuted, str]] = {}
        #: Actions whose cached outputs were damaged, with the readers that wait for their second execution; None after it.
        self._redone: dict[str, list[str] | None] = {}
        #: Tasks that another run executes.
        self._waiting = WaitingTasks()
        #: Number of running jobs.
        self._running = 0
        #: What is not isolated and was reported.
        self._not_isolated: set[str] = set()
        #: A lost output that the listener wanted to read.
        self._unreadable: LostBlob | None = None
        self._stopping = False
        self.done: dict[str, Done] = {}

    def run(self, listener: Listener = ignore) -> dict[str, Done]:
        """Execute the graph. Return the finished actions: all of them unless the listener ended the run."""
        self._listener = listener
        try:
            # Reversed, because _advance takes the last one first. Of actions with one key, the first in the plan gives the
            # task its place.
            self._advance(self._ready.first()[::-1])
            if self._tasks and not self._stopping:
                self._store.prepare()
                make_scratch(self._scratch, self._home)
                self._execute()
        finally:
            remove_folder(str(self._scratch))
            self._store.record_growth()
        return self.done

    def read_blob(self, digest: str) -> bytes:
        """Return the bytes of an output. Raise LostBlob."""
        return self._store.read_blob(digest)

    def rebuild(self, lost: LostBlob) -> None:
        """Execute the action of a lost output again. Its readers, and who listens, then get their events again."""
        self._unreadable = lost

    def relied(self) -> set[str]:
        """Return the files of the action cache that this run's results depend on."""
        return self._lookup.relied()

    def download_outputs(self, tests: Sequence[str]) -> None:
        """Do nothing: all outputs are in the action cache."""

    def _execute(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._libraries.release)
            self._locks = KeyLocks(self._home.actions)
            stack.callback(self._locks.close)
            wake_read, wake = os.pipe()
            stack.callback(os.close, wake_read)
            stack.callback(os.close, wake)
            self._selector = stack.enter_context(selectors.DefaultSelector())
            self._selector.register(wake_read, selectors.EVENT_READ, None)
            context = PoolContext(
                selector=self._selector,
                wake=lambda: os.write(wake, b"x"),
                preloads=preloads_of(self._graph, self._environments),
                home=self._home,
                scratch=self._scratch,
                store=self._store,
                limits=self._limits,
            )
            self._pool = self._pool_factory(context)
            stack.callback(self._pool.close)
            stack.callback(self._pool.supply.close)
            self._background = Background(context.wake)
            stack.callback(self._background.close)
            self._install()
            self._dispatch()
            while self._tasks and not self._stopping:
                self._turn(wake_read)

    def _install(self) -> None:
        """Install the missing packages of unfinished actions, and of finished ones that are executed again."""
        names = {action.environment for key, action in self._graph.actions.items() if key not in self.done}
        names |= {task.action.environment for task in self._tasks.values()}
        environments = list(self._resolved(names))
        lacking = shortage(environments, self._home.packages, Artifacts(self._home.artifacts))
        if lacking:
            self._listener(Note(lacking))
        self._pool.supply.request(environments)

    def _resolved(self, names: Iterable[str]) -> Iterator[ResolvedEnvironment]:
        found = (self._environments[name] for name in names)
        return (environment for environment in found if isinstance(environment, ResolvedEnvironment))

    # Actions that need no execution --------------------------------------------------------------------------------

    def _advance(self, ready: list[str]) -> None:
        while ready and not self._stopping:
            action = self._graph.actions[ready.pop()]
            done = self._without_execution(action)
            if done is not None:
                ready.extend(self._settle(action, done))

    def _settle(self, action: PlannedAction, done: Done) -> list[str]:
        self.done[action.id] = done
        self._unreadable = None
        if self._listener(ActionDone(action, done)):
            self._stopping = True
        lost = self._unreadable
        if lost is not None:
            # A listener may read outputs of all actions that this one depends on.
            before = (self._graph.actions[name] for name in self._graph.needed_by(action.id) if name != action.id)
            made_by = next((each for each in before if lost.digest in self._outputs(each)), None)
            return self._redo(made_by, lost, action) if made_by else self._redo(action, lost)
        ready = self._ready.complete(action.id, failed=not done.result.ok)
        if action.id in self._redone:
            ready += self._redone[action.id] or []
            self._redone[action.id] = None
        return ready

    def _outputs(self, action: PlannedAction) -> Collection[str]:
        return self.done[action.id].result.outputs.values() if action.id in self.done else ()

    def _redo(self, action: PlannedAction, lost: LostBlob, *waiting: PlannedAction) -> list[str]:
        """Execute a cached action with damaged outputs again, once, before the actions that wait for it."""
        if action.id not in self._redone:
            self._lookup.forget_results()
            self._redone[action.id] = [each.id for each in waiting]
            return [action.id]
        pending = self._redone[action.id]
        if pending is not None and waiting:
            pending += [each.id for each in waiting]
            return []
        reason = f"{lost}, and again after it was rebuilt"
        return [key for each in waiting or (action,) for key in self._settle(each, infra_error(each, reason))]

    def _without_execution(self, action: PlannedAction) -> Done | None:
        """Return the end of an action that fails early or is cached. Queue any other, and return None."""
        failed = inherited_failure(action, self.done)
        if failed is not None:
            return failed
        environment = self._environments[action.environment]
        if isinstance(environment, UnavailableEnvironment):
            return unavailable(action, environment.reason)
        prepared = self._lookup.prepare(action, environment.digest, self.done)
        if prepared.key in self._tasks:
            self._tasks[prepared.key].twins.append(action)
            return None
        known = self._lookup.find(prepared)
        if known is not None:
            return Done(result=known, cached=True)
        if environment.digest in self._broken:
            end, reason = self._broken[environment.digest]
            return end(action, reason)
        task = self._tasks[prepared.key] = Task(action, prepared, environment)
        job = self._next.pop(action.id, None)
        if job is not None and self._locks.take(prepared.key):
            job.task = task
        else:
            self._ready.push(prepared.key, environment.digest, like=action.id)
        return None

    # The loop ----------------------------------------------------------------------------------------------------

    def _turn(self, wake: int) -> None:
        for key, _ in self._selector.select(self._waiting.pause(_TICK_S)):
            if key.data is None:
                os.read(wake, 4096)
                self._take_packages()
                self._background.finish()
            else:
                self._take_answers(key.data)
        self._listener(Tick(len(self._waiting)))
        self._pool.end_silent()
        self._look_again()
        self._dispatch()
        if self._is_stuck():
            # Start jobs that became ready since the last dispatch.
            self._dispatch()
            if self._is_stuck():
                self._end_stuck()

    def _is_stuck(self) -> bool:
        """Return whether tasks are left although no job runs, no other run executes one, and no package is being installed."""
        return (
            bool(self._tasks)
            and not (self._stopping or self._running or len(self._waiting))
            and not any(self._retries.is_held_back(digest) for digest in self._by_digest)
            and self._pool.supply.is_idle()
        )

    def _end_stuck(self) -> None:
        """End all tasks as infra-errors that name what their environments lack."""
        for task in [*self._tasks.values()]:
            environment = task.environment
            if environment.digest not in self._broken:
                missing = ", ".join(package.label for package in environment.missing(self._home.packages))
                what = (
                    f"lacks {missing}, which nothing installs" if missing else "takes no action, and nothing is running"
                )
                self._break(environment, f"environment {environment.name} {what}; run the same command again")
            if self._tasks.get(task.prepared.key) is task:
                self._end_broken(task)

    def _take_packages(self) -> None:
        """Report the progress of packages. End actions that need a package that failed to install. Raise DiskFullError."""
        for progress in self._pool.supply.news():
            self._listener(progress)
            if progress.disk_full:
                wanted, home = self._resolved(self._environments), self._home
                raise no_room(progress.error, wanted, home.packages, Artifacts(home.artifacts))
            for environment in self._resolved(self._environments) if progress.error else ():
                if self._pool.supply.lacks(environment, progress.package):
                    self._break(environment, progress.error, unavailable if progress.unavailable else infra_error)

    def _break(self, environment: ResolvedEnvironment, reason: str, end: NotExecuted = infra_error) -> None:
        self._broken[environment.digest] = (end, reason)
        self._retries.forget_losses(environment.digest)
        for key in self._ready.drain(environment.digest):
            self._end_broken(self._tasks[key])

    def _end_broken(self, task: Task) -> None:
        """End a task whose environment cannot be used."""
        end, reason = self._broken[task.environment.digest]
        self._finish_task(task, end(task.action, reason))

    def _give_up(self, task: Task, reason: str) -> None:
        """End a task as an infra-error."""
        self._finish_task(task, infra_error(task.action, reason))

    def _dispatch(self) -> None:
        self._locks.keep(self._tasks)
        self._libraries.release(but=self._tasks)
        while self._running < self._limits.jobs and not self._stopping:
            task = self._next_task()
            if task is None:
                return
            if self._claim(task):
                self._send(task)

    def _claim(self, task: Task) -> bool:
        """Return whether to execute a task: False if another run executes it, or has finished it since the look-up."""
        key = task.prepared.key
        mine = self._locks.take(key) and self._libraries.claim(key, task.action)
        if not mine and not self._waiting.over(task):
            self._waiting.add(task, BUSY * time_limit(task.action, self._limits))
            return False
        return not self._finish_known(task)

    def _finish_known(self, task: Task) -> bool:
        known = self._lookup.find(task.prepared)
        if known is not None:
            self._finish_task(task, Done(result=known, cached=True))
        return known is not None

    def _look_again(self) -> None:
        """Finish waiting tasks whose results are cached by now. Queue those that no other run executes."""
        for task in self._waiting.due(self._tasks):
            if self._finish_known(task):
                continue
            if self._locks.is_free(task.prepared.key) or self._waiting.over(task):
                self._ready.push(task.prepared.key, task.environment.digest, like=task.action.id)
            else:
                self._waiting.add(task, BUSY * time_limit(task.action, self._limits))

    def _next_task(self) -> Task | None:
        if self._running and self._retries.is_running(self._tasks):
            return None
        retried = self._retries.next()
        if retried is not None:
            if self._running:
                return None
            self._retries.begin(retried)
            self._pool.renew(retried.environment)
            return retried
        waiting = {
            digest: count
            for digest, count in self._ready.demand().items()
            if self._pool.supply.has(self._by_digest[digest]) and not self._retries.is_held_back(digest)
        }
        found = self._ready.pop(self._pool.open_environments(waiting))
        return self._tasks[found[0]] if found else None

    def _send(self, task: Task) -> None:
        if task.environment.digest in self._broken:
            self._end_broken(task)
            return
        self._running += 1
        job = Job([task.action, *self._following(task)], task.environment, task)
        try:
            large = large_inputs(task.prepared, self._store)
        except OSError as error:
            self._not_sent(job, task, error)
            return
        if large:
            copying = partial(copy_inputs, large, self._scratch, self._store)
            self._background.start(copying, partial(self._hand_over, job, task))
        else:
            self._hand_over(job, task)

    def _following(self, task: Task) -> Iterator[PlannedAction]:
        """Yield the actions that the process of a task may go on with: each only waits for the one before.

        None of a foreign environment: the process is alive while outputs are moved into the store, and could write to them.
        """
        last = task.action
        for _ in range(1, self._pool.most_actions):
            if task.environment.foreign or not is_compilation(last):
                return
            following = self._ready.next_after(last.id, partial(self._fits, task.environment.digest))
            if following is None:
                return
            last = self._graph.actions[following]
            yield last

    def _fits(self, environment: str, identifier: str) -> bool:
        """Return whether an action may run in a process that has called a compiler of an environment, by its digest."""
        action = self._graph.actions[identifier]
        resolved = self._environments[action.environment]
        return is_compilation(action) and isinstance(resolved, ResolvedEnvironment) and resolved.digest == environment

    def _hand_over(self, job: Job, task: Task, copied: Future[Any] | None = None) -> None:
        """Give a job to the pool, once its large inputs are copied."""
        try:
            job.copies = copied.result() if copied is not None else {}
            self._pool.send(job, task)
        except (OSError, InfrastructureError) as error:
            self._not_sent(job, task, error)
            return
        self._listener(ActionStarted(task.action))

    def _not_sent(self, job: Job, task: Task, error: OSError | InfrastructureError) -> None:
        self._running -= 1
        for copy in job.copies.values():
            with suppress(FileNotFoundError):
                os.unlink(copy)
        if isinstance(error, LostBlob):
            self._find_again(task, error)
        elif isinstance(error, InfrastructureError):
            self._give_up(task, str(error))
            self._break(task.environment, str(error))
        else:
            self._give_up(task, f"the machine failed: {error}")

    def _find_again(self, task: Task, lost: LostBlob) -> None:
        """Rebuild a damaged input, then prepare its reader again."""
        del self._tasks[task.prepared.key]
        made_by = next(
            (
                ref.action
                for ref in task.action.inputs.values()
                if isinstance(ref, Produced) and self.done[ref.action].result.outputs.get(ref.output) == lost.digest
            ),
            None,
        )
        if made_by is None or self._store.has_blob(lost.digest):
            # It was rebuilt since then, or failed.
            self._advance([task.action.id, *(twin.id for twin in task.twins)])
            return
        self._advance(self._redo(self._graph.actions[made_by], lost, task.action, *task.twins))
        # The damaged input's action may need an environment that no other action of this run needs.
        self._install()

    # Answers -----------------------------------------------------------------------------------------------------

    def _take_answers(self, worker: WorkerHandle) -> None:
        answers, alive = worker.receive()
        # A process may end while it waits for ``proceed``: its report and its end may come at once.
        ended = {id(job) for job, answer in answers if not answer.more}
        for job, answer in answers:
            missing = answer.not_isolated
            if missing and missing not in self._not_isolated:
                self._not_isolated.add(missing)
                self._listener(Note(f"actions are not fully isolated (docs/isolation.md): {missing}"))
            if job.hashing or job.lost:
                # Its process has ended while it waited.
                job.lost = True
                continue
            job.lost = answer.more and id(job) in ended
            large = large_outputs(job.folder, job.task.action) if job.task is not None else []
            if large:
                job.hashing = True
                hashing = partial(hash_outputs, large, job.folder, self._store)
                self._background.start(hashing, partial(self._take, job, answer))
            else:
                self._take(job, answer)
        if not alive:
            self._on_worker_lost(worker)

    def _take(self, job: Job, answer: WorkResponse, hashed: Future[None] | None = None) -> None:
        """Read the outputs of an answered action, after the large ones are hashed. An error of hashing occurs here again."""
        task, is_first, done = job.task, job.at == 0, None
        more = answer.more and not job.lost
        job.task, job.hashing = None, False
        if task is None:
            if more:
                self._pool.cancel(job)
            else:
                self._end_job(job)
            return
        self._retries.forget_losses(job.environment.digest)
        try:
            done = self._lookup.take(task, job.folder, answer, is_first=is_first)
        except DamagedFolderError as error:
            task.losses += 1
            if task.losses >= ATTEMPTS:
                done = Done(result=Result(outcome=error.outcome), cached=False, executed=True)
        finally:
            if not more:
                self._end_job(job)
        if more:
            job.at += 1
            self._next[job.actions[job.at].id] = job
        if done is None:
            self._retries.add(task)
        elif is_first or done.result.outcome["outcome"] in ("ok", Outcome.TIMED_OUT):
            self._finish_task(task, done)
        else:
            # A failure other than a time-out is a verdict only of a process of its own.
            self._ready.push(task.prepared.key, task.environment.digest, like=task.action.id)
        if more:
            self._proceed(job)

    def _proceed(self, job: Job) -> None:
        """Go on with the next action of a job. End the job if that is in the cache, executed elsewhere, or not ready."""
        self._next.pop(job.actions[job.at].id, None)
        task, sent = job.task, False
        try:
            if task is not None and not large_inputs(task.prepared, self._store):
                self._pool.proceed(job, task)
                sent = True
        except OSError:
            # A lost input, for example: the action meets it again as the first one of a job.
            pass
        if task is not None and sent:
            self._listener(ActionStarted(task.action))
            return
        if task is not None:
            self._ready.push(task.prepared.key, task.environment.digest, like=task.action.id)
        job.task = None
        self._pool.cancel(job)

    def _end_job(self, job: Job) -> None:
        self._running -= 1
        self._pool.release(job)

    def _finish_task(self, task: Task, done: Done) -> None:
        try:
            check_room(self._home, task.action, done.result.outcome)
        except DiskFullError:
            if not self._running:
                raise
            # An action that still runs may have filled the disk: try this one alone.
            self._retries.add(task)
            return
        del self._tasks[task.prepared.key]
        ready = self._settle(task.action, done)
        for twin in task.twins:
            ready.extend(self._settle(twin, replace(done, executed=False)))
        self._advance(ready)

    def _on_worker_lost(self, worker: WorkerHandle) -> None:
        """Retry the lost worker's tasks one at a time; a task that loses its worker twice is reported as crashed."""
        environment = worker.environment
        words, left = self._pool.remove_worker(worker)
        if not left:
            return
        hopeless = self._retries.note_loss(environment.digest)
        for job, began in left:
            task = job.task
            if job.hashing:
                # Its current action is done.
                job.lost = True
                continue
            self._end_job(job)
            if task is None:
                continue
            task.losses += began
            if task.losses >= ATTEMPTS:
                reason = f"its worker ended twice (environment {environment.name})"
                outcome = failure(task.action.stage, Outcome.CRASHED, reason, words, signal="SIGKILL")
                self._finish_task(task, Done(result=Result(outcome=outcome), cached=False, executed=True))
            elif began or not hopeless:
                self._retries.add(task)
            else:
                reason = f"the worker of environment {environment.name} does not start: {words or 'no output'}"
                self._give_up(task, reason)
                self._break(environment, reason)
