"""What a person reads when a run is over: a line a cell, every surprise in full, one line at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.judge.results import NOT_RUN, Run, TestResult, summarise, weak_words
from mlir_matrix.report.layout import columns, not_run, print_lines, stdout_console
from mlir_matrix.text import counted, harmless

_COLOURS = {"pass": "green", "unsupported": "dim", "skipped": "yellow"}
_SHOWN = 10
_DIAGNOSTIC_LINES = 12
#: The share of its bound from which on a passing test is said to be close to it, and how many are named.
_CLOSE = 0.75
_CLOSE_SHOWN = 3


def print_summary(
    run: Run, folders: Mapping[str, Path], *, repeat: Callable[[str], str], pins: Mapping[str, str]
) -> None:
    """Print the summary of a run to stdout; ``pins`` are those that a person asked for."""
    console = stdout_console()
    print_lines(console, _cells(run.results))
    print_lines(
        console, not_run((result.outcome, result.reason) for result in run.results if result.outcome in NOT_RUN)
    )
    print_lines(console, _close(run.results))
    print_lines(console, _under_one_poison(run.results))
    print_lines(console, _weak(run.results))
    wrong = [result for result in run.results if not result.expected]
    for result in wrong[:_SHOWN]:
        _print_failure(console, result, folders.get(result.id), repeat(result.id))
    if len(wrong) > _SHOWN:
        console.print(f"\n… and {len(wrong) - _SHOWN} more that are not as expected:")
        for result in wrong[_SHOWN:]:
            console.print(f"  {result.outcome:<14} {result.id}", markup=False, soft_wrap=True)
    print_lines(console, _last_lines(run, len(wrong), pins))


def _close(results: Sequence[TestResult]) -> list[str]:
    """Tests that pass, but only just: an error that creeps up shows here before it fails."""
    used = [
        (float(result.metrics.get("error_used", 0)), result.id) for result in results if result.outcome == Outcome.PASS
    ]
    close = sorted(((share, name) for share, name in used if share >= _CLOSE), reverse=True)
    if not close:
        return []
    shown = [f"  {100 * share:.0f} % of its bound is used by {escape(name)}" for share, name in close[:_CLOSE_SHOWN]]
    more = [f"  … and {len(close) - _CLOSE_SHOWN} more"] if len(close) > _CLOSE_SHOWN else []
    return ["", "close to failing", *shown, *more]


def _under_one_poison(results: Sequence[TestResult]) -> list[str]:
    """Tests of whose kernels it is not known whether they read memory that nothing has written."""
    names = [escape(result.id) for result in results if result.metrics.get("poisons") == 1]
    if not names:
        return []
    more = [f"  … and {len(names) - _CLOSE_SHOWN} more"] if len(names) > _CLOSE_SHOWN else []
    return ["", "run under one poison value only", *(f"  {name}" for name in names[:_CLOSE_SHOWN]), *more]


def _weak(results: Sequence[TestResult]) -> list[str]:
    """Tests that pass and prove little: an output that takes no program would pass, too."""
    weak = [result for result in results if result.weak]
    if not weak:
        return []
    verb = "passes but is" if len(weak) == 1 else "pass but are"
    shown = [f"  {escape(result.id)} ({escape(harmless(weak_words(result.weak)))})" for result in weak[:_CLOSE_SHOWN]]
    more = [f"  … and {len(weak) - _CLOSE_SHOWN} more"] if len(weak) > _CLOSE_SHOWN else []
    return [
        "",
        f"{counted(len(weak), 'test')} {verb} weak: outputs that take no program would pass, too",
        *shown,
        *more,
    ]


def _cells(results: Sequence[TestResult]) -> list[str]:
    cells: dict[str, list[TestResult]] = defaultdict(list)
    for result in results:
        name = result.cell
        cells["IR tests of steps" if result.target == "ir" else name].append(result)
    rows = []
    for cell, members in cells.items():
        counts = Counter((result.outcome, result.expected) for result in members)
        passed = counts.pop((Outcome.PASS, True), 0)
        others = [_outcome(outcome, expected, number) for (outcome, expected), number in sorted(counts.items())]
        rows.append((escape(cell), f"[green]{passed}[/]" if passed else "[dim]–[/]", ", ".join(others)))
    return columns(("cell", "pass", "other outcomes"), rows, right=(1,))


def _outcome(outcome: str, expected: bool, number: int) -> str:
    if not expected:
        return f"[bold red]{number} {outcome}, unexpected[/]"
    colour = _COLOURS.get(outcome, "cyan")
    note = "" if outcome in _COLOURS else ", expected"
    return f"[{colour}]{number} {outcome}{note}[/]"


def _print_failure(console: Console, result: TestResult, folder: Path | None, command: str) -> None:
    console.print(f"\n[bold red]{result.outcome}[/] [bold]{escape(result.id)}[/]", soft_wrap=True)
    if result.expectation is not None:
        rule = result.expectation
        console.print(
            f"  expected {rule['outcome']} ({rule['position']}): {rule['reason']}", markup=False, soft_wrap=True
        )
    console.print(f"  {harmless(result.reason)}", markup=False, soft_wrap=True)
    if result.verdict is not None and result.outcome == Outcome.MISMATCH:
        from mlir_matrix.compare.report import render  # imports NumPy

        _indent(console, render(dict(result.verdict)))
    if result.diagnostics:
        lines = result.diagnostics.strip().splitlines()
        # The last lines of a traceback and the first of MLIR's diagnostics say most.
        shown = lines[-_DIAGNOSTIC_LINES:] if lines[0].startswith("Traceback") else lines[:_DIAGNOSTIC_LINES]
        _indent(console, "\n".join(line[:200] for line in shown))
    if folder is not None:
        console.print(f"  kept:   {folder}", markup=False, soft_wrap=True)
    console.print(f"  repeat: {command}", markup=False, soft_wrap=True)


def _indent(console: Console, text: str) -> None:
    for line in harmless(text).splitlines():
        console.print(f"    {line}".rstrip(), markup=False, soft_wrap=True)


def _last_lines(run: Run, wrong: int, pins: Mapping[str, str]) -> list[str]:
    summary = summarise(run.results)
    counts = sorted(summary["by_outcome"].items(), key=lambda item: (item[0] != Outcome.PASS, item[0]))
    ran = sum(result.outcome not in NOT_RUN for result in run.results)
    if run.interrupted:
        state = "[bold red]interrupted[/]: the same command goes on from here"
    else:
        state = f"[bold red]{wrong} not as expected[/]" if wrong else "[bold green]all as expected[/]"
    pinned = [f"with {', '.join(f'{name} {release}' for name, release in pins.items())}"] if pins else []
    return [
        "",
        *map(escape, pinned),
        f"{counted(summary['total'], 'test')}: " + ", ".join(f"{number} {outcome}" for outcome, number in counts),
        f"{state}; {summary['cached']} of {ran} from the cache, {counted(run.executed, 'action')} run",
    ]
