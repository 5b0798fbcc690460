"""Print the causes of a run: one test of each in full, as far as there is room."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.programs import shortened
from mlir_matrix.base.text import counted, minute
from mlir_matrix.results.cause_globs import abridged_globs
from mlir_matrix.results.results import Run, TestResult
from mlir_matrix.results.signature import behaviour, shape

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Cause, ChangedSince

_DIAGNOSTIC_LINES = 12
#: The first line of a diagnostic of the bindings or of ``mlir-opt``: position, if it has one here, and message.
_DIAGNOSTIC = re.compile(r"(?:(\S+:\d+(?::\d+)?): )?error: (.*)")
#: The most characters of a line of globs.
_WIDTH = 100
#: The most tests of a cause that are listed by name, and the most causes that have only a line.
_LISTED, _BRIEF = 3, 10
#: The most of these that have a second line.
_WITH_NEXT = 5
#: The most changed files that are named.
_FILES = 4


def cause_lines(run: Run, most: int | None = None) -> list[Text]:
    """Return the causes in at most about ``most`` lines; None for all. The first cause always has all of its lines."""
    results = {result.id: result for result in run.results}
    lines: list[Text] = []
    for number, cause in enumerate(run.causes):
        block = list(_block(cause, results))
        if most is None:
            block += _others(cause, results)
        if most is not None and number and len(lines) + len(block) + _BRIEF + _WITH_NEXT > most:
            return [*lines, *_brief(run.causes[number:])]
        lines += block
    return lines


def _brief(causes: Sequence[Cause]) -> Iterator[Text]:
    """Return a line for each cause, with the command that helps for the first ones; count those that have no line."""
    yield Text()
    yield Text(f"{counted(len(causes), 'more cause')}; all in full: --verbose")
    for number, cause in enumerate(causes[:_BRIEF]):
        yield Text.assemble(f"  {counted(len(cause['tests']), 'test')}: ", (cause["title"], "bold"))
        if number < _WITH_NEXT and "next" in cause:
            yield Text(f"    next: {cause['next']}")
    rest = causes[_BRIEF:]
    if rest:
        yield Text(f"  … and {len(rest)} more of {counted(sum(len(each['tests']) for each in rest), 'test')}")


def _block(cause: Cause, results: Mapping[str, TestResult]) -> Iterator[Text]:
    """Describe a cause: the tests that it explains, and one of them in full."""
    tests = [results[test] for test in cause["tests"]]
    example = results[cause["example"]]
    yield Text()
    few_alike = len(tests) <= _LISTED and len(set(map(_look, tests))) == 1
    if few_alike:
        for each in tests:
            yield Text.assemble((each.outcome, "bold red"), " ", (each.id, "bold"))
    else:
        yield Text(cause["title"], "bold red")
        yield from _globs(cause)
        if "file" in cause:
            yield Text(f"  file:   {cause['file']}")
        yield Text(f"  {example.outcome} {example.id}")
    in_title = not few_alike and example.reason.removeprefix(f"{cause['name']}: ") in cause["title"]
    yield from _details(example, reason="" if in_title else example.reason)
    if "changed" in cause:
        yield Text(f"  since:  {_since(cause['changed'])}")
    if example.kept:
        yield Text(f"  kept:   {example.kept}")
    yield Text(f"  repeat: {example.repeat}")
    following = cause.get("next", example.repeat)
    if following != example.repeat:
        yield Text(f"  next:   {following}")


def _others(cause: Cause, results: Mapping[str, TestResult]) -> Iterator[Text]:
    """Return a line for each other look of the failures of a cause, with one test that has it."""
    seen = {_look(results[cause["example"]])}
    for test in cause["tests"]:
        result = results[test]
        if _look(result) not in seen:
            seen.add(_look(result))
            yield Text(f"  also:   {result.outcome} {result.id}: {' '.join(result.reason.split())}")


def _look(result: TestResult) -> tuple[str, ...]:
    """Return what failures that look alike have in common."""
    if result.outcome == Outcome.MISMATCH and result.verdict is not None:
        # The reason has the values of an element.
        return result.outcome, *behaviour(result).details
    return result.outcome, shape(result.reason)


def _details(example: TestResult, reason: str) -> Iterator[Text]:
    """Describe how a test failed: what is expected of it, the reason, wrong elements, diagnostics."""
    if example.expectation is not None:
        rule = example.expectation
        yield Text(f"  expected {rule['outcome']} ({rule['position']}): {rule['reason']}")
    if reason:
        yield Text(f"  {reason}")
    if example.verdict is not None and example.outcome == Outcome.MISMATCH:
        from mlir_matrix.compare.report import render  # imports NumPy

        yield from _indented(render(dict(example.verdict)).splitlines())
    if example.diagnostics:
        lines = _beyond(example.reason, example.diagnostics.strip().splitlines())
        # The last lines of a traceback and the first lines of MLIR's diagnostics are the most useful ones.
        is_traceback = "".join(lines[:1]).startswith("Traceback")
        shown = lines[-_DIAGNOSTIC_LINES:] if is_traceback else lines[:_DIAGNOSTIC_LINES]
        yield from _indented(line[:200] for line in shown)


def _since(changed: ChangedSince) -> str:
    """Return what changed since the last run in which a test was as expected."""
    words = [*changed["files"][:_FILES]]
    if len(changed["files"]) > _FILES:
        words.append(f"{len(changed['files']) - _FILES} more files")
    words += [f"{name} {' → '.join(releases)}" for name, releases in changed["pins"].items()]
    if not changed["pins"]:
        words += [f"environment {name}" for name in changed["environments"]]
    if "version" in changed:
        words.append(f"mlir-matrix {' → '.join(changed['version'])}")
    if changed["other_files"] and not words:
        words.append(f"{counted(changed['other_files'], 'file')} of the catalogs, none that all of the tests use")
    words += [f"perhaps files of {folder} (git cannot tell)" for folder in changed.get("unknown", ())]
    unknown = "; it had uncommitted changes, too" if changed["dirty"] else ""
    what = ", ".join(words) or "nothing that the history knows"
    ended = "passed" if changed.get("outcome") == Outcome.PASS else "was as expected"
    return f"it {ended} on {minute(changed['ended'])}, changed: {what}{unknown}"


def _globs(cause: Cause) -> Iterable[Text]:
    """Return the number of tests and the first globs, in lines of limited width."""
    text = f"  tests:  {len(cause['tests'])}: {', '.join(abridged_globs(cause['globs']))}"
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False)
    return map(Text, lines)


def _beyond(reason: str, lines: list[str]) -> list[str]:
    """Return lines of diagnostics without the message of the first one if the reason has it; its position stays."""
    found = _DIAGNOSTIC.fullmatch(lines[0])
    if found is None or shortened(found[2]) not in reason:
        return lines
    if found[1]:
        return [f"at {found[1]}", *lines[1:]]
    return [line.removeprefix("  ") for line in lines[1:]]


def _indented(lines: Iterable[str]) -> Iterator[Text]:
    return (Text(f"    {line}".rstrip()) for line in lines)
