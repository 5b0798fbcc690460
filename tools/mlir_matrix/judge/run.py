"""Run a plan by the executor that a person chose, and gather the results of its tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.users import remember
from mlir_matrix.execute.job import Done, Limits, Observer
from mlir_matrix.execute.local_pool import Pool
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.execute.worker_pool import Equip
from mlir_matrix.expand.expansion import Test
from mlir_matrix.judge.results import ResultMaker, TestResult
from mlir_matrix.plan.graph import Action, Graph
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.progress import Progress
from mlir_matrix.session import Environment, Session

if TYPE_CHECKING:
    from mlir_matrix.environments.package import PackageProgress


#: How actions can be executed.
EXECUTORS = ("local", "docker", "bazel")


@dataclass(frozen=True, kw_only=True)
class Means:
    """What a person chose to execute actions by."""

    executor: str = "local"
    #: ``bazel``: the addresses of a service that executes actions, and of one that keeps results.
    remote: str = ""
    remote_cache: str = ""
    #: What that service is told of actions: ``KEY`` or ``ENVIRONMENT:KEY``, and the value.
    properties: tuple[tuple[str, str], ...] = ()
    #: ``local``: the devices that kernels may use whose targets declare them.
    devices: tuple[str, ...] = ()

    @property
    def sealed(self) -> bool:
        """Whether nothing of this machine may be part of an environment."""
        return self.executor != "local"


LOCAL = Means()


class Executor(Protocol):
    """Runs a graph; ``done`` grows while it does, so that what was finished is there however it ends."""

    done: dict[str, Done]

    def run(self) -> dict[str, Done]: ...

    def read_blob(self, digest: str) -> bytes: ...

    def bring(self, tests: Sequence[str]) -> None:
        """Have what the actions of these tests made in the store of this machine."""


@dataclass(kw_only=True)
class Run:
    """What a run came to. ``interrupted`` where somebody ended it: what was not run until then is ``skipped``."""

    results: list[TestResult] = field(default_factory=list)
    done: dict[str, Done] = field(default_factory=dict)
    #: What ended the run before its time: Ctrl-C, or a signal that asks for the same.
    interruption: KeyboardInterrupt | None = None
    #: Identifiers of the actions that were executed, in the order in which they ended.
    executed_actions: list[str] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended it."""
        return self.interruption is not None

    @property
    def executed(self) -> int:
        """How many actions were executed; the others were known."""
        return len(self.executed_actions)


class _Observer:
    """Turns finished actions into results, and passes everything on to the display."""

    def __init__(self, plan: Plan, maker: ResultMaker, progress: Progress, run: Run, *, fail_fast: bool) -> None:
        self._maker = maker
        self._progress = progress
        self._run = run
        self._fail_fast = fail_fast
        #: The test that ended a run which is to fail fast.
        self.surprise = ""
        self._ends: dict[str, list[Test]] = {}
        for test in plan.tests:
            if test.id in plan.verdicts:
                self._ends.setdefault(plan.verdicts[test.id], []).append(test)

    def action_started(self, action: Action) -> None:
        self._progress.started(action)

    def action_done(self, action: Action, done: Done) -> bool:
        self._progress.ended(action)
        if done.executed:
            self._run.executed_actions.append(action.id)
        self._maker.note(action.id, done)
        for test in self._ends.get(action.id, ()):
            result = self._maker.finished(test, action.id, done)
            self._run.results.append(result)
            self._progress.result(result)
            if self._fail_fast and not result.expected:
                self.surprise = self.surprise or test.id
        return bool(self.surprise)

    def package(self, progress: PackageProgress) -> None:
        self._progress.package(progress)

    def note(self, text: str) -> None:
        self._progress.note(text)

    def tick(self, waiting: int = 0) -> None:
        self._progress.tick(waiting)


class _Quiet:
    """An observer that lets a graph run to its end."""

    def action_started(self, action: Action) -> None: ...
    def action_done(self, action: Action, done: Done) -> bool:
        return False

    def package(self, progress: PackageProgress) -> None: ...
    def note(self, text: str) -> None: ...
    def tick(self, waiting: int = 0) -> None: ...


class Counting(_Quiet):
    """One that says how far a long graph has come, now and then."""

    _EVERY_S = 15.0

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total, self._say, self._ended, self._last = total, say, 0, time.monotonic()

    def action_done(self, action: Action, done: Done) -> bool:
        self._ended += 1
        return False

    def package(self, progress: PackageProgress) -> None:
        if progress.done:
            self._say(f"installed {progress.package}")

    def tick(self, waiting: int = 0) -> None:
        if time.monotonic() - self._last >= self._EVERY_S:
            self._last = time.monotonic()
            self._say(f"{self._ended} of {self._total} actions done")


def run_graph(session: Session, graph: Graph, *, limits: Limits, observer: Observer | None = None) -> dict[str, Done]:
    """Execute a graph that belongs to no tests."""
    return Scheduler(
        graph,
        roots=session.catalog.roots,
        environments=session.environments(action.environment for action in graph.actions.values()),
        home=session.home,
        limits=limits,
        observer=observer or _Quiet(),
        equip=Pool,
    ).run()


def _equip(means: Means, session: Session) -> Equip:
    if means.executor == "docker":
        from mlir_matrix.execute.docker.pool import ContainerCrew  # Docker's library is slow to import

        return partial(ContainerCrew, settings=session.catalog.containers)
    return partial(Pool, devices=means.devices)


def _executor(
    means: Means,
    session: Session,
    plan: Plan,
    environments: Mapping[str, Environment],
    limits: Limits,
    observer: Observer,
) -> Executor:
    if means.executor == "bazel":
        from mlir_matrix.execute.bazel.executor import BazelExecutor
        from mlir_matrix.execute.bazel.locate import locate

        def fetching(progress: PackageProgress) -> None:
            observer.package(progress)
            observer.tick()

        return BazelExecutor(
            session,
            plan,
            bazel=locate(session, listener=fetching),
            means=means,
            environments=environments,
            limits=limits,
            observer=observer,
        )
    return Scheduler(
        plan.graph,
        roots=session.catalog.roots,
        environments=environments,
        home=session.home,
        limits=limits,
        observer=observer,
        equip=_equip(means, session),
    )


def run_plan(
    session: Session,
    plan: Plan,
    *,
    means: Means = LOCAL,
    limits: Limits,
    fail_fast: bool,
    progress: Callable[[int], Progress],
) -> Run:
    """Execute a plan; the results come back in the plan's order. ``progress`` is given the number of tests to run."""
    needed = (action.environment for action in plan.graph.actions.values())
    environments = session.environments(needed, sealed=means.sealed)
    remember(session.home, session.catalog.roots)
    maker = ResultMaker(
        plan.graph,
        pins={name: session.pins_of(name) for name in environments},
        digests={name: item.digest for name, item in environments.items() if isinstance(item, ResolvedEnvironment)},
        read_blob=lambda digest: executor.read_blob(digest),  # noqa: PLW0108 - there is no executor yet
        roots=session.catalog.roots,
    )
    run = Run()
    display = progress(len(plan.verdicts))
    observer = _Observer(plan, maker, display, run, fail_fast=fail_fast)
    try:
        executor = _executor(means, session, plan, environments, limits, observer)
        # It grows from here on, however the run ends.
        run.done = executor.done
        executor.run()
        executor.bring([result.id for result in run.results if not result.expected])
    except KeyboardInterrupt as interruption:
        run.interruption = interruption
    finally:
        display.close()
    run.results.extend(
        maker.not_run(test, test.outcome, test.reason) for test in plan.tests if test.outcome is not None
    )
    missing = plan.verdicts.keys() - {result.id for result in run.results}
    why = f"--fail-fast ended the run at {observer.surprise}" if observer.surprise else "the run was interrupted"
    run.results.extend(maker.not_run(test, "skipped", f"not run: {why}") for test in plan.tests if test.id in missing)
    order = {test.id: number for number, test in enumerate(plan.tests)}
    run.results.sort(key=lambda result: order[result.id])
    return run
