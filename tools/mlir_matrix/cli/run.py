"""``matrix run``: run tests and compare what comes out with what the suite expects."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli.limits import limit_words, limits_options
from mlir_matrix.cli.means import means_options, means_words
from mlir_matrix.cli.options import (
    NewFile,
    Verb,
    cache_option,
    catalog_option,
    environment_option,
    format_option,
    pin_option,
    repeat_command,
    session,
    tests_argument,
    used_pins,
)
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.job import Limits
from mlir_matrix.expand.select import choose, granted
from mlir_matrix.judge.results import TestResult, exit_code, to_document
from mlir_matrix.judge.run import Means, Run, run_plan
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.progress import LiveProgress, PlainProgress, Progress, Silent
from mlir_matrix.session import Session
from mlir_matrix.text import catalog_options

#: More folders of failures than anyone reads; the rest is named.
_KEPT_FAILURES = 50


@click.command(
    "run",
    cls=Verb,
    examples=(
        "matrix run",
        "matrix run 'pytorch/*/x86_64/mlp' --junit mlp.xml",
        "matrix run --pin llvm=22 'mlir/**'",
        "matrix run smoke --format json > results.json",
    ),
)
@tests_argument
@catalog_option
@pin_option
@cache_option
@format_option("table", "json")
@limits_options()
@click.option(
    "--keep-going/--fail-fast", default=True, help="Continue after an unexpected outcome, or stop. Default: continue."
)
@click.option("--junit", type=NewFile(), metavar="FILE", help="Also write JUnit XML to FILE.")
@environment_option
@means_options
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def command(
    tests: tuple[str, ...],
    catalogs: tuple[Path, ...],
    pins: tuple[str, ...],
    cache_dir: Path | None,
    form: str,
    limits: Limits,
    keep_going: bool,
    junit: Path | None,
    swaps: dict[str, str],
    means: Means,
    quiet: bool,
) -> int:
    """Run tests and compare each outcome with the expected one.

    Without arguments, run the suite smoke. An action whose inputs did not change is not run again; its result comes from the
    cache.

    Exit code: 0 all outcomes as expected; 1 something under test is not as expected; 2 the command or the files are wrong; 3 the
    infrastructure failed, and nothing under test did.
    """
    current = session(catalogs, cache_dir, swaps, pins)
    choice = choose(current.catalog, tests, pins=current.pins)
    plan = current.plan(granted(current.catalog, choice.tests(), means.devices))
    if not plan.verdicts:
        raise UsageError(_nothing_to_run(plan))
    asked = used_pins(current, plan)
    progress = chosen_progress(quiet)
    run = run_plan(current, plan, means=means, limits=limits, fail_fast=not keep_going, progress=progress)
    options = _repeated(current, tests, catalogs, cache_dir, swaps, pins) + means_words(means) + limit_words(limits)
    repeat = partial(repeat_command, options=options)
    folders = _keep_failures(run, plan, current, repeat)
    if form == "json":
        click.echo(
            json.dumps(to_document(run.results, interrupted=run.interrupted, executed_actions=run.executed_actions))
        )
    else:
        from mlir_matrix.report.summary import print_summary

        print_summary(run, folders, repeat=repeat, pins=asked)
    if junit is not None:
        from mlir_matrix.report.junit import write_junit

        write_junit(junit, run.results)
    if run.interruption is not None:
        raise run.interruption
    return _code(run.results)


def _nothing_to_run(plan: Plan) -> str:
    reasons = dict.fromkeys(test.reason for test in plan.tests)
    return "no test can run: " + ("; ".join(list(reasons)[:3]) or "the suite is empty")


def chosen_progress(quiet: bool) -> Callable[[int], Progress]:
    """How progress is shown: a live display where somebody looks, plain lines else."""
    # None: it was closed when we began.
    if quiet or sys.stderr is None:
        return Silent
    live = sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    return LiveProgress if live else PlainProgress


def _repeated(
    current: Session,
    tests: Sequence[str],
    catalogs: Sequence[Path],
    cache_dir: Path | None,
    swaps: Mapping[str, str],
    pins: Sequence[str],
) -> list[str]:
    """What of the command line decides how a test ends: catalogs, environments, and the suites, for their expectations."""
    options = catalog_options(catalogs)
    options += ["--cache-dir", str(cache_dir)] if cache_dir else []
    options += [word for pin in pins for word in ("--pin", pin)]
    options += [word for name, other in swaps.items() for word in ("--environment", f"{name}={other}")]
    return options + [name for name in tests if name in current.catalog.suites and name != DEFAULT_SUITE]


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


def _code(results: Sequence[TestResult]) -> int:
    code = exit_code(results)
    if code == 0 and all(result.outcome in ("unsupported", "skipped") for result in results):
        reasons = dict.fromkeys(result.reason for result in results if result.outcome == "skipped")
        raise UsageError(f"no test ran: {'; '.join(list(reasons)[:3])}")
    return code
