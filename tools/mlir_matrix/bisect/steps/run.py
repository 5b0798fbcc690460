"""Run ``matrix bisect --over steps`` and ``--over passes``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

import click

from mlir_matrix.base.files import unwritable
from mlir_matrix.base.layout import print_lines
from mlir_matrix.bisect.log import bisections
from mlir_matrix.bisect.steps.localize import localize
from mlir_matrix.bisect.steps.passes import find_pass
from mlir_matrix.bisect.steps.report import Report, stepped_document, text_lines, write_report
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.progress import shown
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import select_tests
from mlir_matrix.results.run_folder import RunFolder

Over: TypeAlias = Literal["steps", "passes"]


def bisect_steps(session: Session, names: Sequence[str], over: Over, limits: Limits, *, form: str, quiet: bool) -> int:
    """Find and print the wrong step of each failing test, and its pass. Return the exit code. Raise UsageError."""
    tests = [test for test in select_tests(session, names) if test.selected]
    folder = RunFolder(bisections(), session.pins.overrides)
    reports: list[Report] = []
    for test in tests:
        with shown(quiet=quiet) as listener:
            found = localize(session, test, limits, listener=listener)
        inside = find_pass(session, found, limits)
        try:
            reports.append(write_report(found, inside, folder.path))
        except OSError as error:
            raise unwritable(f"no folder can be made in {bisections()}", error) from None
    if form == "json":
        click.echo(json.dumps(stepped_document(reports), indent=1))
    else:
        for report in reports:
            print_lines(text_lines(report))
    return 0 if all(report.found.conclusion.suspects for report in reports) else 3
