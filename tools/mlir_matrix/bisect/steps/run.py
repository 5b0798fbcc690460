"""Run ``matrix bisect --over steps`` and ``--over passes``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

import click

from mlir_matrix.base.errors import UsageError
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
    session: Session, names: Sequence[str], limits: Limits, *, fetching: bool, form: str, quiet: bool
) -> int:
    """Find and print the wrong step of each failing test, and its pass. Return the exit code.

    Raise UsageError if no test has a wrong step to find, for the first reason.
    """
    tests = [test for test in select_tests(session, names) if test.selected]
    folder = RunFolder(bisections(), session.pins.overrides)
    reports: list[Report] = []
    problems: list[UsageError] = []
    for test in tests:
        try:
            with shown(quiet=quiet) as listener:
                found = localize(session, test, limits, fetching=fetching, listener=listener)
            reports.append(write_report(found, find_pass(session, found, limits), folder.path))
        except UsageError as problem:
            problems.append(problem)
        except OSError as error:
            raise unwritable(f"no folder can be made in {bisections()}", error) from None
    if not reports:
        raise problems[0] if problems else UsageError(f"{' '.join(names)}: no test of these can run")
    warn(*problems)
    if form == "json":
        click.echo(json.dumps(stepped_document(reports), indent=1))
    for report in reports if form != "json" else ():
        print_lines(text_lines(report) if form == "text" else [line(report)])
    return 0 if all(report.found.conclusion.suspects for report in reports) else 3
