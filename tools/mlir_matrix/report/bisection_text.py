"""Show a bisection on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape
from rich.text import Text

from mlir_matrix.bisect.bisection import Bisection, ExplainedChange
from mlir_matrix.bisect.signature import PASS
from mlir_matrix.text import counted, harmless

_DIFF_LINES = 14
_COLOURS = {"broke": "red", "fixed": "green", "differs": "yellow"}


def bisection_lines(found: Bisection) -> Iterator[str | Text]:
    """Return the axis, the behaviours and the changes of one test."""
    axis = found.axis
    known = sum(each.signature is not None for each in found.observations)
    yield f"[bold]{escape(found.test)}[/]  {counted(len(axis.releases), 'release')} of {axis.component}, {known} known"
    yield ""
    yield from _line(found)
    yield ""
    for signature, letter in found.behaviours.items():
        yield f"  [bold]{letter}[/]  {escape(harmless(str(signature)))}"
    yield from _unknown(found)
    yield ""
    if not found.changes:
        yield "No change: all known releases behave alike."
    for change in found.changes:
        yield from _change(found, change)


def _line(found: Bisection) -> Iterator[str]:
    """Return the axis: labels above, letters below."""
    letters, labels = found.behaviours, found.axis.labels()
    width = [max(len(label), 1) for label in labels]
    yield "  " + " ".join(f"{label:>{size}}" for label, size in zip(labels, width, strict=True))
    marks = []
    for each, size in zip(found.observations, width, strict=True):
        letter = letters[each.signature] if each.signature else "?"
        colour = "dim" if each.signature is None else "green" if each.signature == PASS else "red"
        marks.append(f"[{colour}]{letter:>{size}}[/]")
    yield "  " + " ".join(marks)


def _unknown(found: Bisection) -> Iterator[str]:
    """Return why nothing can be told at some points, points with one reason together."""
    reasons: dict[str, list[str]] = {}
    for each, label in zip(found.observations, found.axis.labels(), strict=True):
        if each.signature is None:
            reasons.setdefault(each.result.reason, []).append(label)
    for reason, labels in reasons.items():
        yield f"  [dim]?  {', '.join(labels)}: {escape(harmless(reason[:140]))}[/]"


def _change(found: Bisection, explained: ExplainedChange) -> Iterator[str | Text]:
    change, axis, letters = explained.change, found.axis, found.behaviours
    before, after = axis.releases[change.before], axis.releases[change.after]
    between = [axis.releases[point] for point in change.between]
    first = f"between {before} and {after}" if between else f"in {after}"
    move = f"{letters[change.was]} → {letters[change.becomes]}"
    yield f"[bold {_COLOURS[explained.word]}]{explained.word}[/] {first}  {move}"
    if between:
        yield f"  one of {', '.join([*between, after])}: nothing is known of {', '.join(between)}"
    else:
        yield f"  {before} is the last release before"
    difference = explained.difference
    if difference is None:
        yield "  all steps give the same; the difference is in what ran"
    elif not difference.lines:
        yield f"  the IR is the same up to the step {escape(difference.step)}, which gives other bytes"
    else:
        yield f"  the first step whose IR differs: {escape(difference.step)}"
        for line in difference.lines[:_DIFF_LINES]:
            yield Text(f"    {harmless(line)}", style={"+": "green", "-": "red"}.get(line[:1], "dim"))
        if more := max(0, len(difference.lines) - _DIFF_LINES) + difference.cut:
            yield Text(f"    … {more} more lines", style="dim")
    if explained.commits:
        yield f"  commits: {escape(explained.commits)}"
    yield ""
