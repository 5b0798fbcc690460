"""Write a bisection as Markdown, for an issue of the project that caused the change."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from mlir_matrix.base.paths import launcher
from mlir_matrix.base.text import harmless
from mlir_matrix.bisect.bisection import Bisection, ExplainedChange, shown
from mlir_matrix.bisect.observations import Point
from mlir_matrix.bisect.releases import Axis, point_name
from mlir_matrix.bisect.report.words import among, bug, flaky, headline, scaled, sentence, unchanged
from mlir_matrix.results.report.markdown import code, escaped, longest_run
from mlir_matrix.results.reproducer import Commands
from mlir_matrix.results.signature import Signature

_DIAGNOSTICS = 40
#: The most bytes of a file in the text.
_LONGEST = 20_000
#: The folder with the files of the passing point, if its commands differ.
GOOD = "good"


def markdown(found: Bisection, command: str) -> str:
    """Return the report of one test. ``command`` is the command of the bisection."""
    return "\n".join(harmless(line) for line in _lines(found, command)) + "\n"


def _lines(found: Bisection, command: str) -> Iterator[str]:
    axis = found.axis
    first, last, component = map(escaped, (axis.names[0], axis.names[-1], axis.component))
    yield f"# {escaped(_title(found))}"
    yield ""
    yield f"Test {code(found.test)}, with the {axis.noun}s {first} to {last} of {component}:"
    yield from ("", f"| {axis.noun} | behaviour |", "|---|---|")
    told: set[frozenset[Signature] | None] = {None}
    for point in found.points:
        # A behaviour is described once.
        words = found.letters(point.known) if point.known and point.known in told else _behaviour(found, point)
        told.add(point.known)
        yield f"| {escaped(point_name(axis, point.index))} | {words} |"
    if axis.left_out:
        yield from ("", f"Left out, because they come as Python bindings: {escaped(', '.join(axis.left_out))}.")
    if words := scaled(found):
        yield from ("", f"The program was too large for a test; made smaller: {escaped(words)}.")
    if found.problem:
        doubt = f"there is no certain answer: {found.problem}" if found.changes else found.problem
        yield from ("", escaped(sentence(doubt)))
    for explained in found.changes:
        yield from _change(found, explained)
    yield from _repeat(found, command)
    yield from ("", "## Versions", "")
    chosen = shown(found.points)
    for component, release in (chosen.result.pins if chosen else {}).items():
        yield f"- {escaped(component)} {escaped(release)}"


def _behaviour(found: Bisection, point: Point) -> str:
    if not point.known:
        return f"unknown: {escaped(point.shown.result.reason)}"
    counts = point.behaviours
    times = {each: f" ({count} of {sum(counts.values())})" if len(counts) > 1 else "" for each, count in counts.items()}
    return "; ".join(f"**{found.behaviours[each]}** {escaped(str(each))}{times[each]}" for each in counts)


def _title(found: Bisection) -> str:
    words = ", ".join(headline(found, each, found.axis.component) for each in found.changes)
    what = bug(found) if words else ""
    return f"{what}: {words}" if what else f"{found.test}: {words or 'no change'}"


def _change(found: Bisection, explained: ExplainedChange) -> Iterator[str]:
    change, axis = explained.change, found.axis
    words = headline(found, explained, axis.component)
    yield from ("", f"## {escaped(words[:1].upper() + words[1:])}", "")
    for point, known in ((change.before, change.was), (change.after, change.becomes)):
        yield f"- {escaped(axis.names[point])}: {escaped(' or '.join(sorted(map(str, known))))}"
    if len(explained.candidates) > 1:
        yield f"- {among(found, explained)}:"
        for point in explained.candidates:
            mark = " (**changes files of the passes of this step**)" if point in explained.marked else ""
            yield f"  - {escaped(point_name(axis, point))}{mark}"
    if doubt := flaky(found, explained):
        yield f"- {doubt}"
    if explained.commits:
        yield f"- commits: <{quote(explained.commits, safe=':/?#&=%+,~')}>"
    if explained.descend:
        yield f"- to search them: {code(shlex.join([launcher(), 'bisect', *explained.descend]))}"
    for point in (change.before, change.after):
        yield from _result(axis.names[point], found, point)
    yield ""
    yield from _difference(found, explained)


def _difference(found: Bisection, explained: ExplainedChange) -> Iterator[str]:
    difference = explained.difference
    if difference is None or difference.problem:
        yield escaped(sentence(unchanged(found, explained)))
    elif not difference.lines:
        yield f"The IR is the same up to the step {code(difference.step)}, which gives other bytes."
    else:
        yield f"The first step whose IR differs is {code(difference.step)} (names of values are left out):"
        more = [f"… {difference.cut} more lines"] if difference.cut else []
        yield from ("", *_fenced("diff", [*difference.lines, *more]))


def _result(release: str, found: Bisection, point: int) -> Iterator[str]:
    result = found.at(point).shown.result
    said = [line for line in (result.reason, *result.diagnostics.splitlines()) if line]
    if result.outcome == "pass" or not said:
        return
    more = [f"… {len(said) - _DIAGNOSTICS} more lines"] if len(said) > _DIAGNOSTICS else []
    yield from ("", f"With {escaped(release)}:", "", *_fenced("text", [*said[:_DIAGNOSTICS], *more]))


def _repeat(found: Bisection, command: str) -> Iterator[str]:
    chosen, axis = shown(found.points), found.axis
    if chosen and found.commands.steps:
        yield from ("", "## Reproduce", "")
        yield f"In a folder with the files below, with the programs of {escaped(_of(axis, chosen.point))} on `PATH`:"
        yield from ("", *_fenced("sh", _script(found.commands)))
        what, step = bug(found), chosen.result.step
        if what:
            fails = found.commands.compares or (step is not None and step["name"] in found.commands.steps)
            yield from ("", escaped(sentence(f"{'the last command shows it' if fails else 'then'}: {what}")))
        if found.passing:
            point, commands = found.passing
            is_same = commands == found.commands
            how = "all of these commands succeed" if is_same else f"these succeed, with the files in `{GOOD}`"
            yield from ("", f"With {escaped(_of(axis, point))}, {how}{'.' if is_same else ':'}")
            yield from () if is_same else ("", *_fenced("sh", _script(commands)))
        for name, data in found.commands.files.items():
            yield from ("", *_file(name, data))
    again = [shlex.join([launcher(), "run", *found.again])] if found.again else []
    yield from ("", "With this program:", "", *_fenced("sh", [command, *again]))


def _of(axis: Axis, point: int) -> str:
    return axis.names[point] if axis.noun == "pin set" else f"{axis.component} {axis.names[point]}"


def _script(commands: Commands) -> list[str]:
    return [line for step, lines in commands.steps.items() for line in (f"# {step}", *lines)]


def _file(name: str, data: bytes) -> Iterator[str]:
    """Yield a file, or that it is beside the report."""
    try:
        text = data.decode() if len(data) <= _LONGEST else ""
    except UnicodeDecodeError:
        text = ""
    yield f"{code(name)}{':' if text else f': {len(data)} bytes, beside this report'}"
    if text:
        yield from ("", *_fenced(name.rpartition(".")[2], text.rstrip("\n").splitlines()))


def _fenced(language: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a block of code that no line in it ends."""
    fence = "`" * max(3, longest_run("\n".join(lines)) + 1)
    yield from (f"{fence}{language}", *lines, fence)
