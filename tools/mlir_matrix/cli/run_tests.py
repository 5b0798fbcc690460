"""Plan and execute the tests of ``matrix run``, and keep the files of failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.output import used_pins, warn
from mlir_matrix.errors import UsageError
from mlir_matrix.judge.results import Run
from mlir_matrix.judge.run import run_plan
from mlir_matrix.judge.unchanged import Report, Request, UnchangedRuns
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.progress import shown
from mlir_matrix.session import Session, open_session

_KEPT_FAILURES = 50


def run_tests(request: Request, unchanged: UnchangedRuns, *, quiet: bool) -> Report:
    """Run tests; keep the results for runs in which nothing changed."""
    current = open_session(
        catalogs=request.catalogs, cache_dir=request.cache_dir, swaps=request.swaps, pins=request.pins
    )
    warn(*current.catalog.over.values())
    plan = current.plan(current.tests(request.tests, request.executor.devices))
    if not plan.verdicts:
        reasons = list(dict.fromkeys(test.reason for test in plan.tests))
        raise UsageError(f"no test can run: {'; '.join(reasons[:3]) or 'the suite is empty'}")
    pins = used_pins(current, plan.graph)
    with shown(len(plan.verdicts), quiet=quiet) as listener:
        run = run_plan(
            current,
            plan,
            options=request.executor,
            limits=request.limits,
            fail_fast=not request.keep_going,
            listener=listener,
        )
    suites = [name for name in request.tests if name in current.catalog.suites and name != DEFAULT_SUITE]
    repeat = partial(options.repeat_command, request=request, suites=suites)
    report = Report(run=run, pins=pins, folders=_keep_failures(run, plan, current, repeat), repeat=repeat)
    # A report has no warnings, so a run with an unused pin is not kept.
    if len(pins) == len(current.pins.overrides) and not current.catalog.over:
        unchanged.keep(report, plan.graph)
    return report


def _keep_failures(run: Run, plan: Plan, current: Session, repeat: Callable[[str], str]) -> dict[str, Path]:
    wrong = [result for result in run.results if not result.expected and result.id in plan.verdicts]
    if not wrong:
        return {}
    from mlir_matrix.report.failure_folder import keep_failure

    folders = {}
    for result in wrong[:_KEPT_FAILURES]:
        try:
            folders[result.id] = keep_failure(result, plan, run.done, current, repeat(result.id))
        except OSError as error:
            # The results matter more than the folders of failures.
            warn(f"further failures have no folder: {error}")
            break
    return folders
