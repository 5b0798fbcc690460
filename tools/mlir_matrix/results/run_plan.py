"""Run a plan with the chosen executor and collect the results of its tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import DiskFullError, UsageError
from mlir_matrix.base.events import Event, Listener, Note, ignore
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Environment, Session, remember
from mlir_matrix.execute.action_cache import LostBlob
from mlir_matrix.execute.job import ActionDone, Done
from mlir_matrix.execute.local_pool import LocalPool
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.execute.worker_pool import PoolFactory
from mlir_matrix.expand.costs import CostResolver
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.quarantine import ActiveQuarantine, today
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import LOCAL, ExecutorOptions, Limits
from mlir_matrix.results.costs import costs_of, judged_costs
from mlir_matrix.results.repeats import without_copy
from mlir_matrix.results.report.progress import shown_tests
from mlir_matrix.results.result_maker import Annotate, ResultMaker, mark, nothing_more
from mlir_matrix.results.results import Run, TestDone, TestResult


class Executor(Protocol):
    """Runs a graph. ``done`` has the finished actions also if the run is interrupted."""

    done: dict[str, Done]

    def run(self, listener: Listener) -> dict[str, Done]: ...

    def read_blob(self, digest: str) -> bytes:
        """Return the bytes of an output. Raise LostBlob."""

    def rebuild(self, lost: LostBlob) -> None:
        """Rebuild an output that the listener could not read. The action that just ended then ends again."""

    def relied(self) -> set[str] | None:
        """Return the files of the action cache that the results depend on; None if they depend on others."""

    def download_outputs(self, tests: Sequence[str]) -> None:
        """Download the outputs of these tests' actions into the action cache of this machine."""


class _Collector:
    """Collects the results of finished actions, and forwards all events."""

    def __init__(
        self,
        plan: PlannedTests,
        maker: ResultMaker,
        *,
        catalog: Catalog,
        executor: Executor,
        listener: Listener,
        run: Run,
        fail_fast: bool,
    ) -> None:
        self._plan = plan
        self._maker = maker
        self._executor = executor
        self._quarantine = ActiveQuarantine(catalog, today())
        self._goldens = CostResolver(catalog)
        self._listener = listener
        self._run = run
        self._fail_fast = fail_fast
        #: The test that ended a run with --fail-fast.
        self.surprise = ""
        self._ends: dict[str, list[Test]] = {}
        for test in plan.tests:
            for action in self._last_actions(test):
                self._ends.setdefault(action, []).append(test)

    def on(self, event: Event) -> bool:
        """Handle an event; return True to end the run."""
        self._listener(event)
        if isinstance(event, ActionDone):
            try:
                self._collect(event)
            except LostBlob as lost:
                self._executor.rebuild(lost)
        return bool(self.surprise)

    def _collect(self, event: ActionDone) -> None:
        action, done = event.action.id, event.done
        if done.executed:
            self._run.executed_actions.append(action)
        self._maker.note(action, done)
        for test in list(self._ends.get(action, ())):
            last = self._last_actions(test)
            if not all(each in self._run.done for each in last):
                continue
            result = self._result(test)
            self._listener(TestDone(result))
            self._run.results.append(result)
            # If an output is lost, the action ends again, with the tests that the listener has not taken yet.
            for each in last:
                self._ends[each].remove(test)
            if self._fail_fast and result.fails:
                self.surprise = self.surprise or without_copy(test.id)

    def _last_actions(self, test: Test) -> list[str]:
        """Return the actions that a test waits for: of its verdict, and of its costs. None for a test that cannot run."""
        plan = self._plan
        if test.id not in plan.verdicts:
            return []
        costs = plan.costs.get(test.id)
        return [plan.verdicts[test.id], costs.action] if costs else [plan.verdicts[test.id]]

    def _result(self, test: Test) -> TestResult:
        plan, done = self._plan, self._run.done
        verdict = plan.verdicts[test.id]
        planned = plan.costs.get(test.id)
        costs = None
        # A program that fails before its verdict has no costs.
        if planned is not None and done[verdict].result.ok:
            costs = costs_of(planned, plan.graph, done, self._executor.read_blob)
            goldens = self._goldens.of(test)
            # Code for the CPU of this machine costs more or less on another one, whatever the compiler does.
            if goldens and not costs.get("native"):
                costs["judged"] = judged_costs(costs["exact"], goldens)
        return mark(self._quarantine, self._maker.finished(test, verdict, done[verdict], costs))


def _executor(
    options: ExecutorOptions,
    session: Session,
    plan: PlannedTests,
    environments: Mapping[str, Environment],
    limits: Limits,
) -> Executor:
    if options.executor == "bazel":
        if plan.costs:
            test = next(iter(plan.costs))
            raise UsageError(
                f"{test}: the executor bazel counts no costs; choose local or docker, or a suite without 'cost'"
            )
        from mlir_matrix.bazel.executor import BazelExecutor
        from mlir_matrix.bazel.locate import locate

        return BazelExecutor(
            session,
            plan,
            locate=lambda listener: locate(session, listener=listener).command,
            options=options,
            environments=environments,
            limits=limits,
        )
    make_pool: PoolFactory = partial(LocalPool, devices=options.devices)
    if options.executor == "docker":
        from mlir_matrix.containers.pool import ContainerPool  # Docker's library is slow to import

        make_pool = partial(ContainerPool, settings=session.catalog.containers)
    return Scheduler(
        plan.graph,
        roots=session.catalog.roots,
        environments=environments,
        home=session.home,
        limits=limits,
        make_pool=make_pool,
    )


def run_plan(
    session: Session,
    plan: PlannedTests,
    *,
    options: ExecutorOptions = LOCAL,
    limits: Limits,
    fail_fast: bool,
    listener: Listener = ignore,
    annotate: Annotate = nothing_more,
) -> Run:
    """Execute a plan and return the results in the plan's order.

    The listener gets ``TestDone`` with the result of each test as soon as the action with its verdict is finished.
    """
    needed = (action.environment for action in plan.graph.actions.values())
    environments = session.environments(needed, sealed=options.sealed)
    note = remember(session.home, session.catalog.roots, lambda text: listener(Note(text)))
    executor = _executor(options, session, plan, environments, limits)
    maker = ResultMaker(
        plan.graph,
        pins={name: session.pins_of(name) for name in environments},
        digests={name: item.digest for name, item in environments.items() if isinstance(item, ResolvedEnvironment)},
        read_blob=executor.read_blob,
        roots=session.catalog.roots,
        annotate=annotate,
    )
    # The executor adds to this dictionary.
    run = Run(done=executor.done)
    collector = _Collector(
        plan, maker, catalog=session.catalog, executor=executor, listener=listener, run=run, fail_fast=fail_fast
    )
    try:
        executor.run(collector.on)
        executor.download_outputs([result.id for result in run.results if not result.expected or result.kept])
        locked = all(isinstance(each, ResolvedEnvironment) and each.is_locked for each in environments.values())
        relied = executor.relied()
        if relied is not None and locked:
            run.relied = [str(note), *sorted(relied)]
    except (KeyboardInterrupt, DiskFullError) as interruption:
        run.interruption = interruption
    run.results.extend(
        maker.not_run(test, test.outcome, test.reason) for test in plan.tests if test.outcome is not None
    )
    missing = plan.verdicts.keys() - {result.id for result in run.results}
    why = "the disk is full" if isinstance(run.interruption, DiskFullError) else "the run was interrupted"
    if collector.surprise:
        why = f"--fail-fast ended the run at {collector.surprise}"
    run.results.extend(maker.not_run(test, Outcome.SKIPPED, why) for test in plan.tests if test.id in missing)
    order = {test.id: number for number, test in enumerate(plan.tests)}
    run.results.sort(key=lambda result: order[result.id])
    return run


def run_all(current: Session, plan: PlannedTests, executor: ExecutorOptions, limits: Limits, *, quiet: bool) -> Run:
    """Run a plan to its end and show the progress, without recording the run. Raise its interruption, if any."""
    with shown_tests(len(plan.verdicts), quiet=quiet) as listener:
        run = run_plan(current, plan, options=executor, limits=limits, fail_fast=False, listener=listener)
    run.raise_interruption()
    return run
