"""Write what a reduction found as text, Markdown and JSON, and show its progress."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mlir_matrix.base.paths import launcher
from mlir_matrix.base.text import counted, harmless, shortened
from mlir_matrix.execute.progress import LiveProgress
from mlir_matrix.reduce.behaviours import SameFailure
from mlir_matrix.reduce.documents import ReducedTest, Reductions
from mlir_matrix.reduce.reduced import LOG, REDUCED, Reduced
from mlir_matrix.reduce.tester import Progress
from mlir_matrix.results.report.markdown import code, escaped, fenced, write_with_page

if TYPE_CHECKING:
    from rich.text import Text

_REASON, _SCREENFUL = 160, 40


class LiveReduction(LiveProgress):
    """Shows the progress of a reduction on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        super().__init__()

    def head(self, now: float) -> list[Text]:
        from rich.text import Text

        return [Text(f"{self._progress.words()}, {self.seconds(now):.0f} s")]


def behaviour_words(reduced: Reduced) -> str:
    """Return what candidates had to show, as a clause."""
    behaviour = reduced.subject.behaviour
    if isinstance(behaviour, SameFailure):
        passes = f"; {reduced.good} passes" if reduced.good else ""
        return f"{behaviour.wanted}{passes}"
    good = f", and {reduced.good} gives right ones" if reduced.good else ""
    return f"wrong numbers{good}"


def run_command(reduced: Reduced, options: Sequence[str]) -> list[str]:
    """Return the words of the command that shows the failure of the result with this program; none if there is none."""
    subject = reduced.subject
    if reduced.test:
        return [launcher(), "run", reduced.test, *options, "--catalog", str(reduced.folder / "catalog")]
    behaviour = subject.behaviour
    if isinstance(behaviour, SameFailure) and len(behaviour.side.actions) == 1:
        return [launcher(), "step", subject.guilty, str(reduced.folder / REDUCED), *options]
    return []


def plain_lines(reduced: Reduced) -> list[str]:
    """Return the command lines of the compiler's own programs."""
    if reduced.fails_in_one_command:
        pipeline = ",".join(reduced.passes)
        return [shlex.join(["mlir-opt", REDUCED, f"--pass-pipeline=builtin.module({pipeline})"])]
    if reduced.script is None:
        return []
    lines = reduced.script.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "set ", "cd ", "PATH="))]


def text_lines(reduced: Reduced, options: Sequence[str]) -> Iterator[str | Text]:
    """Return the result for a terminal."""
    from rich.markup import escape
    from rich.text import Text

    subject, result = reduced.subject, reduced.subject.result
    yield f"[bold]{escape(subject.test.id)}[/]  {result.outcome}: {escape(shortened(harmless(result.reason), _REASON))}"
    colour = "bold green" if reduced.verified else "bold yellow"
    level = f"the IR after {subject.level}" if subject.level != "file" else "its file"
    yield (
        f"[{colour}]{_sizes(reduced)}[/] of {escape(level)}, "
        f"in {reduced.seconds:.0f} s by {counted(reduced.candidates, 'candidate')}"
    )
    yield f"  it shows: {escape(behaviour_words(reduced))}"
    if subject.guilty:
        passes = f", by {escape(','.join(reduced.passes))}" if reduced.passes else ""
        yield f"  wrong: {escape(subject.guilty)}{passes}"
    yield from notes(reduced)
    yield ""
    lines = reduced.text.rstrip().splitlines()
    yield from (Text(f"  {harmless(line)}") for line in lines[:_SCREENFUL])
    if len(lines) > _SCREENFUL:
        yield f"  [dim]… {len(lines) - _SCREENFUL} more lines[/]"
    yield ""
    plain = plain_lines(reduced)
    if len(plain) == 1:
        yield Text(f"  {harmless(plain[0])}")
    elif reduced.script is not None:
        yield Text(f"  sh {harmless(str(reduced.script))}")
    if command := run_command(reduced, options):
        yield Text(f"  {shlex.join(command)}")
    yield f"report: {escape(str(reduced.folder / 'report.md'))}"


def _sizes(reduced: Reduced) -> str:
    if reduced.before.operations is None or reduced.after.operations is None:
        return f"{reduced.before.lines} to {counted(reduced.after.lines, 'line')}"
    return f"{reduced.before.operations} to {counted(reduced.after.operations, 'operation')}"


def notes(reduced: Reduced) -> Iterator[str]:
    """Yield what is to be known about a result: that it is not final, or that nothing right was asked."""
    from rich.markup import escape

    if not reduced.complete:
        yield "  time was up: this is the best so far; the same command goes on from here"
    if reduced.good_fails:
        reason = escape(shortened(harmless(reduced.good_fails), _REASON))
        yield f"  {reduced.subject.good} fails with the whole program, too, and was not asked about smaller ones: {reason}"
    if not reduced.verified:
        yield "  in new processes this does not fail in the same way each time"
    elif not reduced.test and run_command(reduced, []) == []:
        yield "  it fails from this level only, so there is no workload of it"


def write_report(reduced: Reduced, options: Sequence[str]) -> None:
    """Write the report for an issue as Markdown and HTML. Raise InfrastructureError."""
    text = "\n".join(map(harmless, _markdown(reduced, options))) + "\n"
    write_with_page(reduced.folder / "report.md", text)


def _markdown(reduced: Reduced, options: Sequence[str]) -> Iterator[str]:
    subject, result = reduced.subject, reduced.subject.result
    what = f"{subject.guilty}: " if subject.guilty else ""
    yield f"# {escaped(shortened(what + result.reason.removeprefix(what), _REASON))}"
    yield from (
        "",
        f"Reduced from test {code(subject.test.id)}. This program shows {escaped(behaviour_words(reduced))}:",
    )
    yield from ("", *fenced("mlir", reduced.text.rstrip().splitlines()))
    if lines := plain_lines(reduced):
        where = "" if reduced.fails_in_one_command else ", in the folder `plain/commands` beside this report"
        yield from ("", f"With the compiler's own programs{where}:", "", *fenced("sh", lines))
    if command := run_command(reduced, options):
        yield from ("", "With this program:", "", *fenced("sh", [shlex.join(command)]))
    yield from ("", "## Versions", "")
    yield from (f"- {escaped(component)} {escaped(release)}" for component, release in result.pins.items())


def reduced_document(reduced: Reduced, options: Sequence[str], written: str) -> ReducedTest:
    """Return the entry of a test in the document of ``matrix reduce``."""
    subject = reduced.subject
    document: ReducedTest = {
        "id": subject.test.id,
        "outcome": subject.result.outcome,
        "reason": subject.result.reason,
        "behaviour": behaviour_words(reduced),
        "level": subject.level,
        "step": subject.guilty,
        "good": reduced.good,
        "before": {"operations": reduced.before.operations, "lines": reduced.before.lines},
        "after": {"operations": reduced.after.operations, "lines": reduced.after.lines},
        "candidates": reduced.candidates,
        "seconds": round(reduced.seconds, 3),
        "search_seconds": round(reduced.search_seconds, 3),
        "complete": reduced.complete,
        "verified": reduced.verified,
        "passes": list(reduced.passes),
        "file": str(reduced.folder / REDUCED),
        "folder": str(reduced.folder),
        "command": shlex.join(run_command(reduced, options)),
        "plain": plain_lines(reduced),
        "log": str(reduced.folder / LOG),
    }
    if written:
        document["written"] = written
    return document


def reductions(tests: list[ReducedTest]) -> Reductions:
    """Return the document of ``matrix reduce``."""
    reduced = sum(each["complete"] and each["verified"] for each in tests)
    return {"schema": "mlir-matrix/reduce/v1", "tests": tests, "summary": {"total": len(tests), "reduced": reduced}}
