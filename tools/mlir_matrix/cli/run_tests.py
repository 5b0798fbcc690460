"""Plan and execute the tests of ``matrix run``, and keep the files of failures."""

from __future__ import annotations

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, used_pins, warn
from mlir_matrix.errors import UsageError
from mlir_matrix.events import Event
from mlir_matrix.execute.eviction import cache_limit, trim
from mlir_matrix.judge.run import run_plan
from mlir_matrix.judge.unchanged import Report, Request, UnchangedRuns
from mlir_matrix.paths import find_home
from mlir_matrix.report.events import EventLog
from mlir_matrix.report.failure_folder import Failures
from mlir_matrix.report.progress import shown
from mlir_matrix.report.run_folder import RunFolder
from mlir_matrix.report.run_info import RunInfo
from mlir_matrix.session import open_session
from mlir_matrix.text import counted, megabytes


def run_tests(
    request: Request, unchanged: UnchangedRuns, *, quiet: bool, about: RunInfo | None, log: EventLog
) -> Report:
    """Run tests; keep the results for runs in which nothing changed."""
    cache_limit()  # its error comes before the run
    current = open_session(
        catalogs=request.catalogs, cache_dir=request.cache_dir, swaps=request.swaps, pins=request.pins
    )
    warn(*current.catalog.over.values())
    plan = current.plan(current.tests(request.tests, request.executor.devices))
    if not plan.verdicts:
        reasons = list(dict.fromkeys(test.reason for test in plan.tests))
        raise UsageError(f"no test can run: {'; '.join(reasons[:3]) or 'the suite is empty'}")
    pins = used_pins(current, plan.graph)
    folder = RunFolder(current.home.state / "failures", pins)
    suites = [name for name in request.tests if name in current.catalog.suites and name != DEFAULT_SUITE]
    failures = Failures(folder, options.repeat_command(request, suites))
    if about is not None:
        unsupported = len(plan.tests) - len(plan.verdicts)
        log.planned(about.started(), tests=len(plan.tests), unsupported=unsupported, folder=folder, plan=plan)
    write = log.listener()
    with shown(len(plan.verdicts), quiet=quiet) as display:

        def listen(event: Event) -> None:
            display(event)
            write(event)

        run = run_plan(
            current,
            plan,
            options=request.executor,
            limits=request.limits,
            fail_fast=not request.keep_going,
            listener=listen,
            annotate=failures.annotate,
        )
    if trouble := failures.keep(run, plan, current):
        warn(trouble)
    report = Report(run=run, pins=pins)
    # A report has no warnings, so a run with an unused pin is not kept.
    if len(pins) == len(current.pins.overrides) and not current.catalog.over:
        unchanged.keep(report, plan.graph)
    return report


def trim_cache(request: Request, *, quiet: bool) -> None:
    """Evict results if the action cache is larger than its limit."""
    found = trim(find_home(cache_dir=request.cache_dir))
    if found is None:
        return
    if not quiet:
        note(f"{counted(found.results, 'old result')} removed from the action cache, {megabytes(found.freed)}")
    if found.bytes_left > cache_limit():
        limit = f"its limit of {megabytes(cache_limit())} (MATRIX_CACHE_LIMIT)"
        warn(f"the action cache has {megabytes(found.bytes_left)}, more than {limit}: runs are using it")
