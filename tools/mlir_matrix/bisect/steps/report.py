"""Write what is known about a wrong step as text, Markdown and JSON."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from rich.markup import escape
from rich.text import Text

from mlir_matrix.base.files import write_file
from mlir_matrix.base.layout import columns
from mlir_matrix.base.paths import launcher
from mlir_matrix.base.text import harmless, shortened
from mlir_matrix.bisect.steps.documents import LevelAnswer, LocatedTest, SteppedBisections, TestedLevel
from mlir_matrix.bisect.steps.evidence import WRONG, Answer
from mlir_matrix.bisect.steps.localize import ContinuationResult, Localized
from mlir_matrix.bisect.steps.passes import BEFORE, PATTERNS, FoundPass
from mlir_matrix.expand.routes import alternatives, word_list
from mlir_matrix.results.report.markdown import code, escaped, fenced, write_with_page

_REASON, _DIFFERENCE = 160, 14
#: How many continuations a table shows. The JSON has all.
_COLUMNS = 6
_COLOURS = {Answer.RIGHT: "green", Answer.SAME: "red", Answer.OTHER: "red", Answer.NONE: "dim"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is known about a test, and where its report is."""

    found: Localized
    #: None if no step is known to be wrong.
    inside: FoundPass | None
    path: Path
    #: The options of tests in the command that repeats it.
    options: Sequence[str]


def part_name(found: Localized, index: int) -> str:
    """Return a part of a test for a sentence."""
    is_step = found.first < index <= found.first + len(found.steps)
    return f"step {found.parts[index].name}" if is_step else found.parts[index].name


def verdict(found: Localized) -> str:
    """Return the conclusion in one sentence."""
    suspects = [part_name(found, index) for index in found.conclusion.suspects]
    if found.conclusion.contested:
        return f"cannot tell which is wrong: {alternatives(suspects)}; {_contradiction(found)}"
    if not suspects:
        return "cannot tell which is wrong: each part is right in some continuation, so two of them may not go together"
    if len(suspects) > 1:
        return f"cannot tell which is wrong: {alternatives(suspects)}; {_unknown(found)}"
    if found.conclusion.suspects == (0,):
        return f"{suspects[0]} is probably wrong: no continuation is right"
    if found.conclusion.certain:
        return f"{suspects[0]} is wrong"
    index = found.conclusion.weakly[-1]
    lone = word_list(found.conclusion.cleared[index])
    return f"{suspects[0]} is probably wrong: of {part_name(found, index)} only {lone} shows that it is right"


def line(report: Report) -> str:
    """Return the conclusion about a test in one line of markup, with the pass if it is known."""
    inside = report.inside
    known = inside is not None and inside.passes and not inside.problem
    where = f", in {_passes(inside)}" if inside is not None and known else ""
    return escape(f"{report.found.test.id}: {verdict(report.found)}{where}")


def _unknown(found: Localized) -> str:
    """Return why continuations do not tell which of several parts is wrong."""
    first, *_, last = found.conclusion.suspects
    executed = [cell for cell in found.cells if cell.answer != Answer.NONE]
    if not any(first <= cell.continuation.level < last for cell in executed):
        return "nothing else executes what is between them"
    if all(cell.answer != Answer.RIGHT for cell in executed):
        return "no continuation is right"
    return "what else executes the IR between them does not clear any of them"


def _contradiction(found: Localized) -> str:
    """Return both answers at the first level on which continuations contradict each other."""
    first, *_, last = (*found.conclusion.contested, found.conclusion.contested[-1])
    wrong = next(cell for cell in found.cells if cell.answer in WRONG and cell.continuation.level == first)
    right = next(cell for cell in found.cells if cell.answer == Answer.RIGHT and cell.continuation.level == last)
    return (
        f"{wrong.continuation.name} is wrong after {found.parts[first].name}, and {right.continuation.name} right after "
        f"{found.parts[last].name}, so the behaviour of this IR may be undefined"
    )


def _letters(found: Localized) -> dict[str, str]:
    """Return a letter for the continuations that clear most parts; for all if none clears one."""
    clearing = Counter(name for names in found.conclusion.cleared.values() for name in names)
    names = [name for name, _ in clearing.most_common(_COLUMNS)]
    names = names or list(dict.fromkeys(cell.continuation.name for cell in found.cells))
    return dict(zip(names, ascii_uppercase, strict=False))


def _rows(found: Localized, names: Iterable[str]) -> Iterator[tuple[str, list[ContinuationResult | None]]]:
    """Yield each level that some continuations take, with the answer of each."""
    at = {(cell.continuation.name, cell.continuation.level): cell for cell in found.cells}
    for level in range(len(found.parts) - 1):
        row = [at.get((name, level)) for name in names]
        if any(row):
            yield found.parts[level].name, row


def _sides(found: Localized) -> Iterator[tuple[str, str]]:
    """Yield the numbers before and after the wrong part: its words, and the reason of one continuation."""
    if len(found.conclusion.suspects) != 1:
        return
    (index,) = found.conclusion.suspects
    for words, level, answers in (("takes", index - 1, (Answer.RIGHT,)), ("gives", index, WRONG)):
        cells = [cell for cell in found.cells if cell.continuation.level == level and cell.answer in answers]
        if cells:
            yield f"from what it {words} ({cells[0].continuation.name})", cells[0].result.reason


def text_lines(report: Report) -> Iterator[str | Text]:
    """Return the report for a terminal."""
    found, inside = report.found, report.inside
    colour = "bold red" if found.conclusion.certain else "bold yellow"
    yield f"[bold]{escape(found.test.id)}[/]  {found.result.outcome}: {escape(shortened(harmless(found.result.reason), _REASON))}"
    yield f"[{colour}]{escape(verdict(found))}[/]"
    for words, reason in _sides(found):
        yield f"  {escape(words)}: {escape(shortened(harmless(reason), _REASON))}"
    yield ""
    letters = _letters(found)
    table = [[escape(name), *map(_cell, row)] for name, row in _rows(found, letters)]
    yield from columns(["after", *letters.values()], table)
    for name, letter in letters.items():
        yield f"  [dim]{letter}  {escape(name)}[/]"
    if inside is not None:
        yield ""
        yield from _inside_lines(inside)
        if command := _command(report):
            yield Text(f"  {shlex.join(command)}")
    yield ""
    yield f"report: {escape(str(report.path))}"


def _cell(cell: ContinuationResult | None) -> str:
    return f"[{_COLOURS[cell.answer]}]{_word(cell.answer)}[/]" if cell else "[dim]–[/]"


def _word(answer: Answer) -> str:
    return {Answer.SAME: "wrong", Answer.OTHER: "wrong", Answer.NONE: "?"}.get(answer, str(answer))


def _inside_lines(inside: FoundPass) -> Iterator[str | Text]:
    if inside.problem:
        yield f"no single pass is known: {escape(inside.problem)}"
        if inside.patterns:
            yield escape(_passes(inside))
    else:
        yield f"[bold]{escape(_passes(inside))}[/]{escape(_by(inside))}"
    for line in inside.lines[:_DIFFERENCE] if inside.by else ():
        yield Text(f"    {harmless(line)}", style={"+": "green", "-": "red"}.get(line[:1], "dim"))


def _passes(inside: FoundPass) -> str:
    own = [each for each in inside.passes if each != PATTERNS]
    passes = f"pass {own[0]}" if len(own) == 1 else f"one of the passes {', '.join(own)}"
    if not inside.patterns:
        return passes
    patterns = f"{PATTERNS} ({inside.patterns})"
    return f"{patterns} or {passes}" if own else patterns


def _command(report: Report) -> list[str]:
    """Return the words of the command that runs what is wrong on the IR before it; none if there is none."""
    inside = report.inside
    if inside is None or not inside.step:
        return list(inside.command) if inside else []
    pins = [word for pin in report.found.test.pins.split(",") if pin for word in ("--pin", pin)]
    before = str(report.path.parent / BEFORE)
    return [launcher(), "step", *inside.step, before, *report.options, *pins]


def _by(inside: FoundPass) -> str:
    if not inside.by:
        return ""
    more = f", and runs {', '.join(inside.others)} there as well" if inside.others else ""
    return f": {inside.by} with the rest is right before it and wrong after it{more}"


def _markdown(report: Report) -> Iterator[str]:
    """Yield the lines of the report for an issue."""
    found, inside = report.found, report.inside
    yield f"# {escaped(verdict(found))}"
    yield from ("", f"Test {code(found.test.id)}: {escaped(found.result.reason)}", "")
    for words, reason in _sides(found):
        yield f"- {escaped(words)}: {escaped(reason)}"
    letters = _letters(found)
    yield from ("", f"| after | {' | '.join(letters.values())} |", f"|---|{'---|' * len(letters)}")
    for name, row in _rows(found, letters):
        yield f"| {escaped(name)} | {' | '.join(_word(cell.answer) if cell else '–' for cell in row)} |"
    yield ""
    yield from (f"- {letter}: {escaped(name)}" for name, letter in letters.items())
    if inside is not None:
        yield from ("", f"## {escaped(inside.problem or _passes(inside))}", "")
        if inside.problem and inside.patterns:
            yield from (f"Wrong: {escaped(_passes(inside))}", "")
        if command := _command(report):
            yield "With this program:" if inside.step else "In the folder of this report:"
            yield from ("", *fenced("sh", [shlex.join(command)]), "")
        if inside.lines:
            sides = "What the other release makes there, and what this one makes"
            if not inside.by:
                sides = "What it takes, and what it gives"
            yield f"{sides} (names of values are left out):"
            yield from ("", *fenced("diff", inside.lines))
    again = shlex.join([launcher(), "bisect", found.test.id, "--over", "steps", *report.options])
    yield from ("", "With this program:", "", *fenced("sh", [again]), "", "## Versions", "")
    yield from (f"- {escaped(component)} {escaped(release)}" for component, release in found.result.pins.items())


def write_report(report: Report) -> None:
    """Write a report as Markdown and HTML, with the IR before and after. Raise InfrastructureError."""
    inside = report.inside
    files = {BEFORE: inside.before, "after.mlir": inside.after} if inside else {}
    for name, data in files.items():
        if data:
            write_file(report.path.parent / name, data)
    text = "\n".join(map(harmless, _markdown(report))) + "\n"
    write_with_page(report.path, text)


def stepped_document(reports: Sequence[Report]) -> SteppedBisections:
    """Return the document of ``matrix bisect --over``."""
    certain = sum(each.found.conclusion.certain for each in reports)
    return {
        "schema": "mlir-matrix/bisect-steps/v1",
        "tests": [_document(each) for each in reports],
        "summary": {"total": len(reports), "certain": certain},
    }


def _document(report: Report) -> LocatedTest:
    found, inside = report.found, report.inside
    names = dict.fromkeys(cell.continuation.name for cell in found.cells)
    levels: list[TestedLevel] = [
        {"after": name, "answers": [_answer(cell) for cell in row if cell is not None]}
        for name, row in _rows(found, names)
    ]
    document: LocatedTest = {
        "id": found.test.id,
        "outcome": found.result.outcome,
        "reason": found.result.reason,
        "verdict": verdict(found),
        "suspects": found.suspects,
        "certain": found.conclusion.certain,
        "levels": levels,
        "report": str(report.path),
    }
    if inside is not None:
        document["inside"] = {
            "passes": list(inside.passes),
            "by": inside.by,
            "answers": list(inside.answers),
            "problem": inside.problem,
            "difference": list(inside.lines),
            "command": _command(report),
        }
    return document


def _answer(cell: ContinuationResult) -> LevelAnswer:
    result = cell.result
    return {
        "continuation": cell.continuation.name,
        "answer": cell.answer,
        "outcome": result.outcome,
        "reason": result.reason,
        "metrics": dict(result.metrics),
    }
