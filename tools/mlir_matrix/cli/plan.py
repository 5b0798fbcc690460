"""``matrix plan``: show tests, actions and environments of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.cli import options
from mlir_matrix.cli.output import used_pins, warn
from mlir_matrix.cli.selection import select
from mlir_matrix.cli.verbs import verb
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.request import EVERYTHING, SelectionOptions

if TYPE_CHECKING:
    from mlir_matrix.cli.selection import Selected
    from mlir_matrix.environments.session import Session
    from mlir_matrix.plan.planner import Plan

_BATCH = 2_000


@verb(
    "plan",
    "matrix plan",
    "matrix plan 'jax/**' --format ids",
    "matrix plan smoke 'pytorch/*/x86_64/mlp*' --format json",
    "matrix plan --machine x86-64-builder",
)
@options.tests
@options.session(*options.releases)
@options.sealed
@options.device
@options.selection
@options.output_format("table", "json", "ids")
@click.option(
    "--check",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Print nothing; exit with 1 if FILE, written by --format json, is stale.",
)
def plan_command(
    tests: tuple[str, ...],
    current: Session,
    sealed: bool,
    devices: tuple[str, ...],
    selection: SelectionOptions,
    form: str,
    check: Path | None,
) -> int:
    """Show which tests would run and why, without running them.

    Without arguments, plan the suite smoke. A glob matches segment by segment. A suite and a glob select the tests of the suite
    that match the glob.
    """
    if form == "ids" and selection == EVERYTHING:
        _print_lines(choose(current.catalog, tests, pins=current.pins).ids())
        return 0
    selected = select(current, tests, selection, devices, excluded=True)
    chosen, current = selected.tests, selected.current
    if form == "ids":
        _print_lines(test.id for test in chosen if not test.excluded)
        return 0
    plan = selected.plan([test for test in chosen if test.selected])
    used_pins(current, plan.graph)
    if check is not None:
        return _check(check, selected, plan, sealed=sealed)
    if form == "json":
        from mlir_matrix.execute.plan_document import document_parts, to_lines

        _print_lines(to_lines(document_parts(chosen, plan, current, sealed=sealed, selection=selected.document)))
        return 0
    from rich.markup import escape

    from mlir_matrix.base.layout import print_lines
    from mlir_matrix.report.plan_table import plan_lines

    print_lines([*plan_lines(chosen, plan, current, sealed=sealed), *map(escape, selected.lines)])
    return 0


def _check(file: Path, selected: Selected, plan: Plan, *, sealed: bool) -> int:
    """Return 0 if a file has this plan, apart from what differs between machines, else 1."""
    from mlir_matrix.execute.plan_document import lasting, to_document

    try:
        was = lasting(json.loads(file.read_bytes()))
    except OSError as error:
        raise UsageError(f"--check {file}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise UsageError(f"--check {file}: not a plan; make one with: matrix plan --format json") from None
    document = to_document(selected.tests, plan, selected.current, sealed=sealed, selection=selected.document)
    now = json.loads(json.dumps(lasting(document)))
    if was == now:
        return 0
    parts = [part for part in now if was.get(part) != now[part]]
    warn(f"{file} is stale: its {', '.join(parts)} changed; make it again with: matrix plan --format json")
    return 1


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines in batches: a suite may have a million tests, and a line of a plan some kilobytes."""
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        click.echo("\n".join(batch))
