"""Show a bisection on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.markup import escape
from rich.text import Text

from mlir_matrix.base.paths import launcher
from mlir_matrix.base.text import counted, harmless, shortened
from mlir_matrix.bisect.bisection import Bisection, ExplainedChange
from mlir_matrix.bisect.observations import Point
from mlir_matrix.bisect.releases import point_name
from mlir_matrix.bisect.report.words import among, flaky, headline, scaled, sentence, unchanged

_DIFF_LINES = 14
#: Points that fit on a line, and candidates that are listed.
_IN_LINE, _CANDIDATES = 16, 10
#: Characters of a reason.
_REASON = 140
_MARK = "  [yellow]changes files of the passes of this step[/]"
_COLOURS = {"broke": "red", "fixed": "green", "differs": "yellow"}


def bisection_lines(found: Bisection) -> Iterator[str | Text]:
    """Return the axis, the behaviours and the changes of one test."""
    return (harmless(line) if isinstance(line, str) else line for line in _lines(found))


def _lines(found: Bisection) -> Iterator[str | Text]:
    axis = found.axis
    known = sum(point.known is not None for point in found.points)
    probed = "" if len(found.points) == len(axis) else f", {len(found.points)} probed"
    yield f"[bold]{escape(found.test)}[/]  {counted(len(axis), axis.noun)} of {axis.component}{probed}, {known} known"
    if axis.left_out:
        names = ", ".join(axis.left_out)
        yield f"[dim]without {escape(names)}: not programs but Python bindings (--bindings takes them)[/]"
    yield ""
    yield from _line(found) if axis.noun == "release" and len(found.points) <= _IN_LINE else _column(found)
    yield ""
    for signature, letter in found.behaviours.items():
        yield f"  [bold]{letter}[/]  {escape(str(signature))}"
    yield from _unknown(found)
    if words := scaled(found):
        yield f"  scaled: {escape(words)}"
    yield ""
    if found.problem and found.changes:
        yield f"[yellow]no certain answer:[/] {escape(found.problem)}"
    elif not found.changes:
        yield escape(sentence(found.problem or f"no such change: what is known of the {axis.noun}s is above"))
    for change in found.changes:
        yield from _change(found, change)


def _line(found: Bisection) -> Iterator[str]:
    """Return the axis: labels above, letters below."""
    every = found.axis.labels()
    labels = [every[point.index] for point in found.points]
    cells = [_cell(found, point) for point in found.points]
    widths = [max(len(label), len(cell)) for label, (cell, _) in zip(labels, cells, strict=True)]
    yield "  " + " ".join(f"{label:>{size}}" for label, size in zip(labels, widths, strict=True))
    yield "  " + " ".join(f"[{colour}]{cell:>{size}}[/]" for (cell, colour), size in zip(cells, widths, strict=True))


def _column(found: Bisection) -> Iterator[str]:
    """Return a line for each point that was probed."""
    labels = found.axis.labels()
    for point in found.points:
        cell, colour = _cell(found, point)
        title = f"  {found.axis.titles[point.index]}" if found.axis.titles else ""
        counts = point.behaviours
        times = f"  ({', '.join(f'{found.behaviours[each]} {count}' for each, count in counts.items())})"
        many = times if sum(counts.values()) > 1 else ""
        yield f"  [{colour}]{cell:>3}[/]  {labels[point.index]}{escape(title[:80])}[dim]{many}[/]"


def _cell(found: Bisection, point: Point) -> tuple[str, str]:
    """Return the letters of a point, and their colour."""
    if not point.known:
        return "?", "dim"
    passes = {each.passes for each in point.known}
    colour = "green" if passes == {True} else "yellow" if True in passes else "red"
    return found.letters(point.known), colour


def _unknown(found: Bisection) -> Iterator[str]:
    """Return why some points have no known result, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    labels = found.axis.labels()
    for point in found.points:
        if not point.known:
            reasons.setdefault(point.shown.result.reason, []).append(labels[point.index])
    for reason, names in reasons.items():
        yield f"  [dim]?  {', '.join(names)}: {escape(shortened(reason, _REASON))}[/]"


def _change(found: Bisection, explained: ExplainedChange) -> Iterator[str | Text]:
    change, axis = explained.change, found.axis
    move = f"{found.letters(change.was)} → {found.letters(change.becomes)}"
    candidates = [point_name(axis, point) for point in explained.candidates]
    words = escape(headline(found, explained)).removeprefix(explained.word)
    yield f"[bold {_COLOURS[explained.word]}]{explained.word}[/]{words}  {move}"
    if len(candidates) == 1 and axis.noun != "pin set":
        yield f"  {escape(point_name(axis, change.before))} is the last {axis.noun} before"
    elif len(candidates) > 1:
        yield f"  {among(found, explained)}:"
        for point, name in list(zip(explained.candidates, candidates, strict=True))[:_CANDIDATES]:
            yield f"    {escape(name)}{_MARK if point in explained.marked else ''}"
        if len(candidates) > _CANDIDATES:
            yield f"    and {len(candidates) - _CANDIDATES} more"
    if doubt := flaky(found, explained):
        yield f"  {doubt}"
    difference = explained.difference
    if difference is None or difference.problem:
        yield f"  {escape(unchanged(found, explained))}"
    elif not difference.lines:
        yield f"  the IR is the same up to the step {escape(difference.step)}, which gives other bytes"
    else:
        yield f"  the first step whose IR differs: {escape(difference.step)}"
        for line in difference.lines[:_DIFF_LINES]:
            yield Text(f"    {harmless(line)}", style={"+": "green", "-": "red"}.get(line[:1], "dim"))
        if more := max(0, len(difference.lines) - _DIFF_LINES) + difference.cut:
            yield Text(f"    … {more} more lines", style="dim")
    yield from _sources(explained)
    yield ""


def _sources(explained: ExplainedChange) -> Iterator[str]:
    """Return where the commits of a change are, and what searches them."""
    if explained.commits:
        yield f"  commits: {escape(explained.commits)}"
    if explained.descend:
        yield f"  search them: {escape(shlex.join([launcher(), 'bisect', *explained.descend]))}"
