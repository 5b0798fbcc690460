"""Plan and execute the tests of ``matrix run``, and keep the files of failures."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import Event
from mlir_matrix.base.names import printable
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Catalog
from mlir_matrix.cli import options
from mlir_matrix.cli.output import used_pins, warn, warn_left_out, warn_unsized
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.eviction import cache_limit
from mlir_matrix.expand.costs import of_command_line
from mlir_matrix.fleet.plan_state import input_digests, state_of
from mlir_matrix.fleet.selection import select
from mlir_matrix.history.record import record
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import ALL, FAILED, Request
from mlir_matrix.plan.session import open_session, plan_tests, select_tests
from mlir_matrix.results.cause_changes import named_by_changes
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.event_log import EventLog
from mlir_matrix.results.failure_folder import KeptTests
from mlir_matrix.results.next_command import with_next
from mlir_matrix.results.repeats import STAGES, fold, folding, unstable_in_run, with_repeats, without_copy
from mlir_matrix.results.report.progress import shown_tests
from mlir_matrix.results.results import Run
from mlir_matrix.results.run_folder import RunFolder
from mlir_matrix.results.run_info import RunInfo
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.run.unchanged import KeptRun, UnchangedRuns
from mlir_matrix.run.what_changed import what_changed


def run_tests(request: Request, unchanged: UnchangedRuns, *, quiet: bool, about: RunInfo, log: EventLog) -> KeptRun:
    """Run tests. Keep the results for later runs in which nothing has changed."""
    cache_limit()  # raises UsageError before the run
    current = open_session(
        catalogs=request.catalogs, cache_dir=request.cache_dir, swaps=request.swaps, pins=request.pins,
        permissions=request.permissions, size=request.size,
    )  # fmt: skip
    warn_left_out(current.catalog)
    selected = select(
        current, request.tests, request.selection, request.executor.devices, memory_mb=request.limits.memory_mb
    )
    current, request = selected.current, selected.request(request)
    tests = selected.with_results()
    if request.cost or request.strict:
        tests = of_command_line(tests, cost=request.cost, strict=request.strict)
    plan = plan_tests(current, tests) if request.cost else selected.plan(tests)
    if not plan.verdicts and not selected.may_be_empty:
        reasons = list(dict.fromkeys(test.reason for test in plan.tests))
        raise UsageError(f"no test can run: {'; '.join(reasons[:3]) or 'the suite is empty'}")
    warn_unsized(current.catalog, request.size, {test.workload for test in plan.tests})
    pins = used_pins(current, plan.graph)
    folder = RunFolder(current.home.state / "failures", pins)
    suites = [name for name in request.tests if name in current.catalog.suites and name != DEFAULT_SUITE]
    again = options.repeat_command(request, suites)
    asked = _asked(request.keep, current, plan, suites)
    kept = KeptTests(folder, lambda test: again(without_copy(test)), asked)
    unsupported = len(plan.tests) - len(plan.verdicts)
    warn(*_other_commits(current.catalog, about))
    log.planned(about.started(), tests=len(plan.tests), unsupported=unsupported, folder=folder, plan=plan)
    write, whole = log.listener(), plan
    if request.times:
        stages = STAGES[STAGES.index(Stage(request.rerun_from)) :] if request.rerun_from else STAGES
        once = {test.id for test in plan.tests} - plan.verdicts.keys()
        plan = with_repeats(plan, once, dict.fromkeys(plan.verdicts, request.times), stages=stages)
    with shown_tests(len(whole.verdicts), quiet=quiet) as display:

        def listen(event: Event) -> None:
            display(event)
            write(event)

        run = run_plan(
            current,
            plan,
            options=request.executor,
            limits=request.limits,
            fail_fast=not request.keep_going,
            listener=folding(listen, request.times) if request.times else listen,
            annotate=kept.annotate,
        )
    run.results = with_next(run.results, options.other_command(request))
    if trouble := kept.keep(run, plan, current):
        warn(trouble)
    executions = run.results
    if request.times:
        steps = unstable_in_run(plan, run.done)
        run.results = [replace(each, unstable=steps.get(each.id, [])) for each in fold(run.results)]
    run.causes = causes_of(run.results)
    if run.causes:
        changes = what_changed(run, about.started(), current.home.state, warn)
        run.causes = named_by_changes(run.results, run.causes, changes)
    # The history records each repeated execution, and tests in their own size.
    recorded = "" if request.size else _record(current, whole, replace(run, results=executions), about, request.tests)
    report = KeptRun(run=run, pins=pins, selection=selected.document, left_out=selected.lines, recorded=recorded)
    # A report has no warnings, so a run with an unused pin is not kept.
    if len(pins) == len(current.pins.overrides) + len(current.pins.step_words) and not current.catalog.over:
        unchanged.keep(report, plan.graph)
    return report


def _asked(keep: str, current: Session, plan: PlannedTests, suites: Sequence[str]) -> Collection[str]:
    """Return the tests whose files ``--keep`` asks for even if they are as expected. Raise UsageError if no test runs."""
    if keep == FAILED:
        return ()
    if keep == ALL:
        return plan.verdicts
    asked = {test.id for test in select_tests(current, [*suites, keep])} & plan.verdicts.keys()
    if not asked:
        raise UsageError(f"--keep {printable(keep)}: no test of this run matches; expected failed, all or tests")
    return asked


def _other_commits(catalog: Catalog, about: RunInfo) -> Iterator[str]:
    """Yield a warning for each corpus whose checkout is at another commit than its expectations."""
    commits = {each["folder"]: each.get("commit", "") for each in about.started()["catalogs"]}
    for corpus in catalog.corpora.values():
        if corpus.folder.is_relative_to(corpus.root):
            continue  # its programs are not in a checkout of their own
        data, folder = corpus.document.data, str(corpus.root)
        commit = commits.get(folder, "")
        if data is not None and commit and commit != data.commit:
            fix = f"git -C {shlex.quote(folder)} checkout {data.commit[:12]}"
            yield f"corpus {corpus.name}: {folder} is at {commit[:12]}, its expectations are of {data.commit[:12]}: {fix}"


def _record(current: Session, plan: PlannedTests, run: Run, about: RunInfo, tests: Sequence[str]) -> str:
    """Record a run in the history; return its identifier there."""
    inputs = input_digests(plan, state_of(current, plan))
    results = [replace(each, id=without_copy(each.id)) for each in run.results]
    each_execution = replace(run, results=results)
    identifier, troubles = record(current.home.state, each_execution, about.finished(), tests, inputs)
    warn(*troubles)
    return identifier
