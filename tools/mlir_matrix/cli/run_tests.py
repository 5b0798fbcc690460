"""Plan and execute the tests of ``matrix run``, and keep the files of failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli.options import repeat_command, session, used_pins
from mlir_matrix.errors import UsageError
from mlir_matrix.expand.select import choose, granted
from mlir_matrix.judge.results import Run
from mlir_matrix.judge.run import run_plan
from mlir_matrix.judge.unchanged import Report, Request, UnchangedRuns
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.progress import shown
from mlir_matrix.session import Session

#: More folders of failures than anyone reads; the rest is named.
_KEPT_FAILURES = 50


def run_tests(request: Request, unchanged: UnchangedRuns, *, quiet: bool) -> Report:
    """Run tests, and keep the results for as long as nothing changes."""
    current = session(request.catalogs, request.cache_dir, request.swaps, request.pins)
    choice = choose(current.catalog, request.tests, pins=current.pins)
    plan = current.plan(granted(current.catalog, choice.tests(), request.executor.devices))
    if not plan.verdicts:
        raise UsageError(_nothing_to_run(plan))
    pins = used_pins(current, plan)
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
    repeat = partial(repeat_command, request=request, suites=suites)
    report = Report(run=run, pins=pins, folders=_keep_failures(run, plan, current, repeat), repeat=repeat)
    # What is said of pins that nothing uses is no part of a report.
    if len(pins) == len(current.pins.overrides):
        unchanged.keep(report, plan.graph)
    return report


def _nothing_to_run(plan: Plan) -> str:
    reasons = dict.fromkeys(test.reason for test in plan.tests)
    return "no test can run: " + ("; ".join(list(reasons)[:3]) or "the suite is empty")


def _keep_failures(run: Run, plan: Plan, current: Session, repeat: Callable[[str], str]) -> dict[str, Path]:
    """Lay out the unexpected ones for people to look at."""
    wrong = [result for result in run.results if not result.expected and result.id in plan.verdicts]
    if not wrong:
        return {}
    from mlir_matrix.report.failure_folder import keep_failure

    folders = {}
    for result in wrong[:_KEPT_FAILURES]:
        try:
            folders[result.id] = keep_failure(result, plan, run.done, current, repeat(result.id))
        except OSError as error:
            # The results are worth more than what is kept about them.
            click.echo(f"matrix: nothing more is kept of failures: {error}", err=True)
            break
    return folders
