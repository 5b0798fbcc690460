"""A plan for people: a line a cell, what is left out and why, and what has to be fetched."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.expansion import Test
from mlir_matrix.plan.planner import Plan
from mlir_matrix.session import Session

#: Up to so many tests are listed one by one.
_FEW = 40


def print_plan(tests: Sequence[Test], plan: Plan, session: Session) -> None:
    """Print the plan to stdout."""
    console = Console(highlight=False)
    console.print(_tests(tests) if len(tests) <= _FEW else _cells(tests))
    console.print()
    console.print(_environments(plan, session))
    selected = sum(test.selected for test in tests)
    unsupported = sum(test.outcome == "unsupported" for test in tests)
    left_out = len(tests) - selected - unsupported
    console.print(
        f"\n[bold]{selected} tests[/] to run, {len(plan.graph.actions)} actions; "
        f"{unsupported} unsupported, {left_out} left out. Why: matrix explain ID"
    )


def _tests(tests: Sequence[Test]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("test", no_wrap=True)
    table.add_column("")
    table.add_column("reason")
    for test in tests:
        state = "[green]run[/]" if test.selected else f"[dim]{test.outcome or 'left out'}[/]"
        expectation = f"[cyan]expected {test.expectation.outcome}[/] " if test.expectation else ""
        table.add_row(escape(test.id), state, expectation + escape(test.reason))
    return table


def _cells(tests: Sequence[Test]) -> Table:
    cells: dict[str, list[Test]] = defaultdict(list)
    for test in tests:
        name = f"{test.framework}/{test.pipeline}/{test.target}"
        cells["IR tests of steps" if test.is_ir else name].append(test)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cell", no_wrap=True)
    table.add_column("tests", justify="right")
    table.add_column("not run")
    for cell, members in cells.items():
        selected = sum(test.selected for test in members)
        table.add_row(cell, f"[green]{selected}[/]" if selected else "[dim]–[/]", _left_out(members))
    return table


def _left_out(members: Sequence[Test]) -> str:
    reasons = Counter((test.outcome or "left out", test.reason) for test in members if not test.selected)
    if not reasons:
        return ""
    if len(reasons) == 1:
        (word, reason), number = next(iter(reasons.items()))
        return f"[dim]{number} {word}: {escape(reason)}[/]"
    return f"[dim]{sum(reasons.values())}, for {len(reasons)} reasons[/]"


def _environments(plan: Plan, session: Session) -> Table:
    users = Counter(action.environment for action in plan.graph.actions.values())
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("environment", no_wrap=True)
    table.add_column("actions", justify="right")
    table.add_column("pins")
    table.add_column("here")
    for name, environment in session.environments(users).items():
        pins = ", ".join(f"{component} {release}" for component, release in session.pins(name).items())
        table.add_row(name, str(users[name]), pins or "[dim]the interpreter alone[/]", _state(environment, session))
    return table


def _state(environment: object, session: Session) -> str:
    if not isinstance(environment, ResolvedEnvironment):
        return f"[yellow]not to be had: {escape(environment.reason)}[/]"  # type: ignore[attr-defined]
    missing = environment.missing(session.home.packages)
    if not missing:
        return "[green]yes[/]"
    return f"{len(missing)} of {len(environment.packages)} packages to fetch"
