"""Write a bisection as Markdown, ready for an issue of the project that caused the change."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from mlir_matrix.bisect.bisection import Bisection, ExplainedChange, shown
from mlir_matrix.text import harmless

_DIAGNOSTICS = 40


def markdown(found: Bisection, command: str) -> str:
    """Return the report of one test; ``command`` is the one that made it."""
    return "\n".join(harmless(line) for line in _lines(found, command)) + "\n"


def _lines(found: Bisection, command: str) -> Iterator[str]:
    axis = found.axis
    yield f"# {_title(found)}"
    yield ""
    yield f"Test `{found.test}`, with the releases {axis.releases[0]} to {axis.releases[-1]} of {axis.component}:"
    yield from ("", "| release | behaviour |", "|---|---|")
    letters = found.behaviours
    for release, each in zip(axis.releases, found.observations, strict=True):
        word = f"**{letters[each.signature]}** {each.signature}" if each.signature else f"unknown: {each.result.reason}"
        yield f"| {release} | {_cell(word)} |"
    for explained in found.changes:
        yield from _change(found, explained)
    yield from _repeat(found, command)
    yield from ("", "## Versions", "")
    chosen = shown(found.observations)
    for component, release in (chosen.result.pins if chosen else {}).items():
        yield f"- {component} {release}"


def _title(found: Bisection) -> str:
    words = [
        f"{each.word} in {found.axis.component} {found.axis.releases[each.change.after]}" for each in found.changes
    ]
    return f"{found.test}: {', '.join(words) or 'no change'}"


def _change(found: Bisection, explained: ExplainedChange) -> Iterator[str]:
    change, axis = explained.change, found.axis
    before, after = axis.releases[change.before], axis.releases[change.after]
    yield from ("", f"## {explained.word.capitalize()} in {axis.component} {after}", "")
    yield f"- {before}: {change.was}"
    yield f"- {after}: {change.becomes}"
    if change.between:
        unknown = ", ".join(axis.releases[point] for point in change.between)
        yield f"- unknown: {unknown}; the change is in one of these or in {after}"
    if explained.commits:
        yield f"- commits: {explained.commits}"
    for point in (change.before, change.after):
        yield from _result(axis.releases[point], found, point)
    difference = explained.difference
    if difference is not None:
        yield ""
        if not difference.lines:
            yield f"The IR is the same up to the step `{difference.step}`, which gives other bytes."
            return
        yield f"The first step whose IR differs is `{difference.step}` (names of values are left out):"
        more = [f"… {difference.cut} more lines"] if difference.cut else []
        yield from ("", *_fenced("diff", [*difference.lines, *more]))


def _result(release: str, found: Bisection, point: int) -> Iterator[str]:
    result = found.observations[point].result
    said = [line for line in (result.reason, *result.diagnostics.splitlines()) if line]
    if result.outcome == "pass" or not said:
        return
    more = [f"… {len(said) - _DIAGNOSTICS} more lines"] if len(said) > _DIAGNOSTICS else []
    yield from ("", f"With {release}:", "", *_fenced("text", [*said[:_DIAGNOSTICS], *more]))


def _repeat(found: Bisection, command: str) -> Iterator[str]:
    chosen = shown(found.observations)
    again = [f"tools/matrix run {shlex.quote(chosen.result.id)}"] if chosen else []
    yield from ("", "## Repeat", "", *_fenced("sh", [command, *again]))
    if chosen and found.commands.steps:
        yield from ("", f"Without that tool, with the programs of {found.axis.releases[chosen.point]}:", "")
        yield from _fenced(
            "sh", [line for step, lines in found.commands.steps.items() for line in (f"# {step}", *lines)]
        )
        for name, text in found.commands.files.items():
            yield from ("", f"`{name}`:", "", *_fenced("mlir", text.rstrip("\n").splitlines()))


def _fenced(language: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a block of code that no line in it ends."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{language}", *lines, fence)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
