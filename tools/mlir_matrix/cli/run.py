"""``matrix run``: run tests and compare each outcome with the expected one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.cli import options
from mlir_matrix.cli.lazy import verb
from mlir_matrix.errors import UsageError
from mlir_matrix.judge.results import NOT_RUN, exit_code, to_document
from mlir_matrix.judge.unchanged import Request, UnchangedRuns


@verb(
    "run",
    "matrix run",
    "matrix run 'pytorch/*/x86_64/mlp' --junit mlp.xml",
    "matrix run --pin llvm=22 'mlir/**'",
    "matrix run smoke --format json > results.json",
)
@options.tests
@options.catalog
@options.pin
@options.cache
@options.output_format("table", "json")
@options.limits
@click.option(
    "--keep-going/--fail-fast", default=True, help="Continue after an unexpected outcome, or stop. Default: continue."
)
@click.option("--junit", type=options.NewFile(), metavar="FILE", help="Also write JUnit XML to FILE.")
@options.environment
@options.executor
@options.quiet
def command(form: str, junit: Path | None, quiet: bool, **given: Any) -> int:
    """Run tests and compare each outcome with the expected one.

    Without arguments, run the suite smoke. An action whose inputs did not change is not run again; its result comes from the
    cache.

    Exit code: 0 all outcomes as expected; 1 something under test is not as expected; 2 the command or the files are wrong; 3 the
    infrastructure failed, and nothing under test did.
    """
    request = Request(**given)
    unchanged = UnchangedRuns(request)
    report = unchanged.find()
    if report is None:
        from mlir_matrix.cli.run_tests import run_tests  # not needed for an unchanged run

        report = run_tests(request, unchanged, quiet=quiet)
    run = report.run
    if form == "json":
        click.echo(
            json.dumps(to_document(run.results, interrupted=run.interrupted, executed_actions=run.executed_actions))
        )
    else:
        from mlir_matrix.report.summary import print_summary

        print_summary(run, report.folders, repeat=report.repeat, pins=report.pins)
    if junit is not None:
        from mlir_matrix.report.junit import write_junit

        write_junit(junit, run.results)
    if run.interruption is not None:
        raise run.interruption
    code = exit_code(run.results)
    if code == 0 and all(result.outcome in NOT_RUN for result in run.results):
        reasons = dict.fromkeys(result.reason for result in run.results if result.outcome == Outcome.SKIPPED)
        raise UsageError(f"no test ran: {'; '.join(list(reasons)[:3])}")
    return code
