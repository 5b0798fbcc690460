"""Print the summary of a run: one line per cell, the causes of unexpected outcomes, and one line at the end."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.markup import escape
from rich.text import Text

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.layout import columns, not_run, print_lines, section
from mlir_matrix.base.text import counted
from mlir_matrix.results.cost_text import cost_reason, costs_that_are
from mlir_matrix.results.report.cause_text import cause_lines
from mlir_matrix.results.results import NOT_RUN, Run, TestResult, summarise, weak_words

_COLOURS = {"pass": "green", "unsupported": "dim", "skipped": "yellow"}
_SHOWN = 10
#: Up to so many cells without any supported test are listed; more are counted.
_IDLE = 20
#: The same under a pattern, which may match many; also the most reasons of unsupported tests that are then listed.
_FEW = 3
#: The most lines of a summary, as a run prints at most 80 with progress and notes; and those that cells may always have. A table
#: with more cells that fail is left out.
_LINES, _ROWS = 72, 10
#: A passing test that uses at least this share of its bound is close to failing.
_CLOSE = 0.75
_NAMED = 3


def print_summary(
    run: Run,
    pins: Mapping[str, str],
    left_out: Sequence[str] = (),
    *,
    verbose: bool = False,
    slowest: int = 0,
    pattern: bool = False,
    stderr: bool = False,
) -> None:
    """Print the summary of a run.

    Arguments:
        run: The run.
        pins: Those of the command line.
        left_out: Lines about tests without results.
        verbose: Begin with a line for each test that ran, and list every reason why others did not.
        slowest: How many of the slowest tests to list.
        pattern: If True, count unsupported tests in one line, without their reasons.
        stderr: Print to stderr.
    """
    lines: list[str | Text] = []
    if verbose:
        lines += [*_each_test(result for result in run.results if result.outcome not in NOT_RUN), ""]
    # A change may affect no test.
    lines += _lines(run, pins, slowest, brief=pattern and not verbose, verbose=verbose) if run.results else ()
    print_lines([*lines, *map(escape, left_out)], stderr=stderr)


def _slowest(results: Iterable[TestResult], count: int) -> list[str]:
    """Return lines of the tests that took longest; those from the cache took no time in this run."""
    with_results = [result for result in results if result.outcome not in NOT_RUN]
    ran = [result for result in with_results if not result.cached]
    if count and with_results and not ran:
        return ["none: all results came from the cache"]
    return _each_test(sorted(ran, key=lambda result: -result.duration_s)[:count])


def _each_test(results: Iterable[TestResult]) -> list[str]:
    """Return a line a test: how it ended, its seconds, its identifier."""
    rows = []
    for result in results:
        colour = _COLOURS.get(result.outcome, "cyan")
        if result.fails:
            colour = "bold red"
        seconds = "cached" if result.cached else f"{result.duration_s:.2f} s"
        rows.append((f"[{colour}]{result.outcome}[/]", seconds, escape(result.id)))
    return columns(("", "", ""), rows, right=(1,))[1:] if rows else []


def _lines(run: Run, pins: Mapping[str, str], slowest: int, *, brief: bool, verbose: bool) -> list[str | Text]:
    results = run.results
    wrong = [result for result in results if result.fails]
    if not verbose and wrong:
        # What is not as expected matters more than what does not run.
        brief = True
    notes = [*_not_run(results, brief=brief), *_notes(results)]
    end = [*section("slowest", _slowest(results, slowest)), *_last_lines(run, len(wrong), pins)]
    if verbose:
        return [*_cells(results, most_idle=_IDLE), *notes, *cause_lines(run), *end]
    room = _LINES - len(notes) - len(end)
    causes = cause_lines(run, room - _ROWS)
    return [
        *_cells(results, most_idle=_FEW if brief else _IDLE, most=max(_ROWS, room - len(causes) - 1)),
        *notes,
        *causes,
        *end,
    ]


def _not_run(results: Iterable[TestResult], *, brief: bool) -> list[str]:
    left = [result for result in results if result.outcome in NOT_RUN]
    if brief and len({result.reason for result in left}) > _FEW:
        left = [result for result in left if result.outcome != Outcome.UNSUPPORTED]
    return not_run((result.outcome, result.reason) for result in left)


def _notes(results: Sequence[TestResult]) -> Iterator[str]:
    """Return what is worth knowing of passing tests, of steps, and of tests in quarantine."""
    yield from section("close to failing", _close(results), _NAMED)
    one_poison = [escape(result.id) for result in results if result.metrics.get("poisons") == 1]
    yield from section("run under one poison value only", one_poison, _NAMED)
    weak = [f"{escape(each.id)} ({escape(weak_words(each.weak))})" for each in results if each.weak]
    verb = "passes but is" if len(weak) == 1 else "pass but are"
    heading = f"{counted(len(weak), 'test')} {verb} weak: outputs that need no program would also pass"
    yield from section(heading, weak, _NAMED)
    worse = [
        f"{escape(each.id)}: {escape(cost_reason(found))}"
        for each in results
        if each.outcome == Outcome.PASS and (found := costs_that_are("worse", each.costs))
    ]
    yield from section("pass, and cost more than their goldens", worse, _NAMED)
    better = [
        escape(each.id) for each in results if each.outcome == Outcome.PASS and costs_that_are("better", each.costs)
    ]
    yield from section("cost less than their goldens: matrix golden update --cost keeps that", better, _NAMED)
    changing = [f"{escape(each.id)}: {escape(', '.join(each.unstable))}" for each in results if each.unstable]
    heading = "steps that give different bytes for equal inputs: cached results and bisections need bytes that repeat"
    yield from section(heading, changing, _SHOWN)
    yield from section("failed in quarantine", map(_quarantined, (each for each in results if each.quarantine)), _SHOWN)


def _close(results: Sequence[TestResult]) -> list[str]:
    """Return the tests that almost fail. An error that grows over time appears here first."""
    used = [
        (float(result.metrics.get("error_used", 0)), result.id) for result in results if result.outcome == Outcome.PASS
    ]
    close = sorted((entry for entry in used if entry[0] >= _CLOSE), reverse=True)
    return [f"{100 * share:.0f} % of its bound is used by {escape(name)}" for share, name in close]


def _cells(results: Sequence[TestResult], *, most_idle: int, most: int | None = None) -> list[str]:
    """Return the table of cells, with at most about ``most`` rows (None: all). Those that fail are then kept, if they fit."""
    cells: dict[str, list[TestResult]] = defaultdict(list)
    for result in results:
        cells[result.identity.row].append(result)
    failing = {cell for cell, members in cells.items() if any(each.fails for each in members)}
    if most is not None and len(failing) > _ROWS:
        return [f"{len(failing)} of {counted(len(cells), 'cell')} have unexpected outcomes; each: --verbose"]
    # Many cells without a route are only counted, because their reasons are listed.
    idle = {cell for cell, members in cells.items() if all(each.outcome == Outcome.UNSUPPORTED for each in members)}
    hidden = idle if len(idle) > most_idle else set()
    shown = [cell for cell in cells if cell not in hidden]
    if most is not None and len(shown) > most:
        kept = [cell for cell in shown if cell in failing] or shown[: most - 1]
        hidden |= cells.keys() - set(kept)
        shown = kept
    rows = [_row(cell, cells[cell]) for cell in shown]
    if hidden:
        left = [result for cell in cells if cell in hidden for result in cells[cell]]
        note = ", ".join(f"{number} {outcome}" for outcome, number in Counter(each.outcome for each in left).items())
        rows.append(
            (
                counted(len(hidden), "more cell"),
                "[dim]–[/]",
                f"[dim]{counted(len(left), 'test')}: {note}; each: --verbose[/]",
            )
        )
    return columns(("cell", "pass", "other outcomes"), rows, right=(1,))


def _row(cell: str, results: Sequence[TestResult]) -> tuple[str, str, str]:
    counts = Counter((result.outcome, _state(result)) for result in results)
    passed = counts.pop((Outcome.PASS, "expected"), 0)
    compiled = any(each.compile_only and each.outcome == Outcome.PASS for each in results)
    others = ["[dim]compiled and checked, not run[/]"] if compiled else []
    others += [_outcome(outcome, state, number) for (outcome, state), number in sorted(counts.items())]
    return escape(cell), f"[green]{passed}[/]" if passed else "[dim]–[/]", ", ".join(others)


def _state(result: TestResult) -> str:
    return "unexpected" if result.fails else "expected" if result.expected else "in quarantine"


def _outcome(outcome: str, state: str, number: int) -> str:
    if state == "expected" and outcome in _COLOURS:
        return f"[{_COLOURS[outcome]}]{number} {outcome}[/]"
    colour = {"expected": "cyan", "unexpected": "bold red"}.get(state, "yellow")
    return f"[{colour}]{number} {outcome}, {state}[/]"


def _quarantined(result: TestResult) -> str:
    assert result.quarantine is not None
    of = result.quarantine
    words = f"{result.outcome} {result.id}: {of['owner']}, until {of['until']} ({of['position']}): {of['reason']}"
    return escape(words)


def _last_lines(run: Run, wrong: int, pins: Mapping[str, str]) -> list[str]:
    summary = summarise(run.results)
    counts = sorted(summary["by_outcome"].items(), key=lambda item: (item[0] != Outcome.PASS, item[0]))
    ran = sum(result.outcome not in NOT_RUN for result in run.results)
    if run.interrupted:
        # stderr says how to continue.
        state = "[bold red]interrupted[/]"
    else:
        causes = f", {counted(len(run.causes), 'cause')}" if wrong > 1 else ""
        state = f"[bold red]{wrong} not as expected{causes}[/]" if wrong else "[bold green]all as expected[/]"
        held = sum(result.quarantine is not None for result in run.results)
        state += f", [yellow]{held} in quarantine[/]" if held else ""
    compiled = sum(result.compile_only and result.outcome == Outcome.PASS for result in run.results)
    note = f" ({compiled} compiled only)" if compiled else ""
    folders = [result.kept for result in run.results if result.kept and result.expected]
    kept = [f"files of {counted(len(folders), 'test')} as expected: {os.path.commonpath(folders)}"] if folders else []
    pinned = [f"with {', '.join(f'{name} {release}' for name, release in pins.items())}"] if pins else []
    return [
        "",
        *map(escape, [*kept, *pinned]),
        f"{counted(summary['total'], 'test')}: "
        + ", ".join(f"{number} {outcome}{note if outcome == Outcome.PASS else ''}" for outcome, number in counts),
        f"{state}; {summary['cached']} of {ran} from the cache, {counted(run.executed, 'action')} run",
    ]
