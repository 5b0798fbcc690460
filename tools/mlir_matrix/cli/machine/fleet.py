"""``matrix machine fleet``: show what several machines run, and what none runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.text import counted, now
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.selection import by_machine
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.machines.find import find_machine
from mlir_matrix.machines.fleet import fleet
from mlir_matrix.plan.request import SelectionOptions

#: Further cells are counted.
_CELLS = 20


@verb(
    "fleet",
    "matrix machine fleet",
    "matrix machine fleet x86-64-builder matrix/machines/x86-64-nightly.yaml --date 2026-01-31",
)
@click.argument("machines", nargs=-1, metavar="[NAME|FILE]...")
@options.history
@options.date
@options.output_format("table", "json")
@options.session()
def fleet_command(machines: tuple[str, ...], history: Path | None, date: str, form: str, current: Session) -> None:
    """Show the load of machines, the cells that none of them runs, and those that several run.

    Without names, these are the machines of the catalogs; the tests are those of all suites.
    """
    found = [find_machine(current.catalog, name) for name in machines or current.catalog.machines]
    if not found:
        raise UsageError("the catalogs have no machine; make one: matrix machine probe > matrix/machines/NAME.yaml")
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two machines are called '{min(twice)}'; give each file a name of its own")
    moment = SelectionOptions(history=history, date=date or now())
    choices = {each.name: choice for each in found if (choice := by_machine(current, each, moment).choice)}
    suites = list(current.catalog.suites)
    tests = choose(current.catalog, suites, pins=current.pins).tests() if suites else ()
    report = fleet(tests, found, choices)
    show(form, report, _lines(report), markup=True)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    rows = [
        (
            escape(each["name"]),
            str(each["tests"]),
            f"{each['minutes']:.3g}",
            "" if each["budget_minutes"] is None else f"{each['budget_minutes']:g}",
            escape(", ".join(f"{number} {left}" for left, number in each["left_out"].items())),
        )
        for each in report["machines"]
    ]
    yield from columns(("machine", "tests", "minutes", "budget", "left out"), rows, right=(1, 2, 3))
    nobody = [f"{escape(each['cell'])}: {len(each['tests'])} ({escape(each['reason'])})" for each in report["nobody"]]
    yield from section("[bold]run by no machine[/]", nobody, _CELLS)
    several = [
        f"{escape(each['cell'])}: {len(each['tests'])} by {escape(', '.join(each['machines']))}"
        for each in report["several"]
    ]
    yield from section("[bold]run by several machines[/]", several, _CELLS)
    summary = report["summary"]
    yield ""
    yield (
        f"{counted(summary['tests'], 'test')} of {counted(summary['machines'], 'machine')}: "
        f"{summary['nobody']} run by none, {summary['several']} by several"
    )
