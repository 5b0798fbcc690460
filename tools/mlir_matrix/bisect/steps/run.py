"""Run ``matrix bisect --over steps`` and ``--over passes``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

import click

from mlir_matrix.base.errors import InfrastructureError, MatrixError, UsageError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.layout import print_lines
from mlir_matrix.bisect.log import bisections
from mlir_matrix.bisect.steps.localize import localize
from mlir_matrix.bisect.steps.passes import find_pass
from mlir_matrix.bisect.steps.report import Report, line, stepped_document, text_lines, write_report
from mlir_matrix.cli.output import warn
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.progress import shown
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import select_tests
from mlir_matrix.results.run_folder import RunFolder

Over: TypeAlias = Literal["steps", "passes"]


def bisect_steps(
    session: Session,
    names: Sequence[str],
    options: Sequence[str],
    limits: Limits,
    *,
    fetching: bool,
    form: str,
    quiet: bool,
) -> int:
    """Find and print the wrong step of each failing test, and its pass. Return the exit code.

    ``options``: those of tests on the command line. Raise UsageError or InfrastructureError if nothing is found out about any
    test, for the first reason.
    """
    tests = [test for test in select_tests(session, names) if test.selected]
    folder = RunFolder(bisections(), session.pins.overrides)
    reports: list[Report] = []
    problems: list[MatrixError] = []
    for test in tests:
        try:
            with shown(quiet=quiet) as listener:
                found = localize(session, test, limits, fetching=fetching, listener=listener)
            inside = find_pass(session, found, limits)
            report = Report(found=found, inside=inside, path=folder.path / test.id / "report.md", options=options)
            write_report(report)
        except (UsageError, InfrastructureError) as problem:
            problems.append(problem)
            continue
        except OSError as error:
            raise unwritable(f"no folder can be made in {bisections()}", error) from None
        reports.append(report)
        # What is found so far stays if a later test is interrupted.
        if form != "json":
            print_lines(text_lines(report) if form == "text" else [line(report)])
    if not reports:
        raise problems[0] if problems else UsageError(f"{' '.join(names)}: no test of these can run")
    warn(*problems)
    if form == "json":
        click.echo(json.dumps(stepped_document(reports), indent=1))
    known = all(report.found.conclusion.suspects for report in reports)
    failed = any(isinstance(problem, InfrastructureError) for problem in problems)
    return 0 if known and not failed else 3
