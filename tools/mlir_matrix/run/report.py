"""Show a plan as text: one line per cell, the tests that do not run and why, and the environments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rich.markup import escape

from mlir_matrix.base.layout import columns, not_run
from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import counted, megabytes
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.state import Cost, cost_of, state_of, state_words
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.planner import PlannedTests

#: Up to so many tests are listed; more are counted by cell.
_FEW = 40


def plan_lines(tests: Sequence[Test], plan: PlannedTests, session: Session, *, sealed: bool = False) -> Iterator[str]:
    """Yield the lines of the table, as markup."""
    yield from _tests(tests) if len(tests) <= _FEW else _cells(tests)
    if plan.graph.actions:
        yield from ("", *_environments(plan, session, sealed=sealed))
    yield from ("", _last_line(tests, plan))


def _state(test: Test) -> str:
    return "run" if test.selected else test.outcome or "left out"


def _tests(tests: Sequence[Test]) -> list[str]:
    rows = []
    for test in tests:
        state = "[green]run[/]" if test.selected else f"[dim]{_state(test)}[/]"
        expected = f"expected {test.expectation.outcome}: {test.expectation.reason}" if test.expectation else ""
        rows.append((escape(test.id), state, escape(expected or test.reason)))
    return columns(("test", "", "reason"), rows)


def _cells(tests: Sequence[Test]) -> Iterator[str]:
    by_place: dict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
    for test in tests:
        by_place[test.framework, test.pipeline, test.target, test.pins][_state(test)] += 1
    cells: dict[str, Counter[str]] = defaultdict(Counter)
    for (framework, pipeline, target, pins), counts in by_place.items():
        cells[TestId(framework, pipeline, target, "", pins).row] += counts
    others = sorted({state for counts in cells.values() for state in counts} - {"run"})
    rows = [
        (
            escape(name),
            f"[green]{counts['run']}[/]" if counts["run"] else "[dim]–[/]",
            *(f"[dim]{counts[state]}[/]" if counts[state] else "" for state in others),
        )
        for name, counts in cells.items()
    ]
    yield from columns(("cell", "run", *others), rows, right=range(1, len(others) + 2))
    yield from not_run((_state(test), test.reason) for test in tests if not test.selected)


def _environments(plan: PlannedTests, session: Session, *, sealed: bool) -> list[str]:
    """Return one line per environment, and the total download. A shared package counts once."""
    users = Counter(action.environment for action in plan.graph.actions.values())
    found = session.environments(users, sealed=sealed)
    here = [environment for environment in found.values() if isinstance(environment, ResolvedEnvironment)]
    rows = []
    for name, environment in found.items():
        pins = ", ".join(f"{component} {release}" for component, release in session.pins_of(name).items())
        cost = cost_of([environment], session.home) if isinstance(environment, ResolvedEnvironment) else Cost()
        rows.append(
            (
                escape(name),
                str(users[name]),
                escape(pins) or "[dim]the interpreter alone[/]",
                megabytes(cost.fetch),
                megabytes(cost.disk),
                state_words(state_of(environment, session.home), cost.to_fetch, getattr(environment, "reason", "")),
            )
        )
    header = ("environment", "actions", "pins", "archives", "on disk", "state")
    lines = columns(header, rows, right=(1, 3, 4))
    total = cost_of(here, session.home)
    if not total.here:
        lines.append(f"to fetch: {megabytes(total.to_fetch)}, then {megabytes(total.to_install)} more on disk")
    return lines


def _last_line(tests: Sequence[Test], plan: PlannedTests) -> str:
    states = Counter(map(_state, tests))
    selected = states.pop("run", 0)
    parts = [f"[bold]{counted(selected, 'test')}[/] to run in {counted(len(plan.graph.actions), 'action')}"]
    parts += [f"{number} {state}" for state, number in sorted(states.items())]
    return f"{', '.join(parts)}. Why: matrix explain ID"
