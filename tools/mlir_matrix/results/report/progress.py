"""Show the progress of tests on stderr: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.events import Event, Listener
from mlir_matrix.base.text import harmless
from mlir_matrix.execute.progress import LiveProgress, PlainProgress, shown
from mlir_matrix.results.results import TestDone, TestResult

if TYPE_CHECKING:
    from rich.text import Text

#: The most characters of a reason. The summary has all of it.
_LINE = 160
#: The most unexpected results that the live display prints. It counts the others, and the summary has their causes.
_SHOWN = 3


def shown_tests(total: int, *, quiet: bool) -> AbstractContextManager[Listener]:
    """Show the progress of ``total`` tests on stderr."""
    return shown(quiet=quiet, live=lambda: LiveTests(total), plain=lambda: PlainTests(total))


def _result_line(result: TestResult) -> str:
    line = f"{result.outcome:<14} {result.id}"
    if result.quarantine:
        line += f"  (in quarantine until {result.quarantine['until']})"
    elif not result.expected:
        line += "  UNEXPECTED"
    elif result.outcome != Outcome.PASS and result.expectation:
        line += "  (expected)"
    if result.outcome == Outcome.PASS or not result.reason:
        return line
    return f"{line}  {harmless(result.reason[:_LINE])}{'…' if len(result.reason) > _LINE else ''}"


class PlainTests(PlainProgress):
    """Prints a line for each result and each package, for logs."""

    def __init__(self, total: int = 0) -> None:
        super().__init__()
        self._total = total
        self.results = 0

    def on(self, event: Event) -> None:
        match event:
            case TestDone(result):
                self.results += 1
                self.say_result(result)
            case _:
                super().on(event)

    def say_result(self, result: TestResult) -> None:
        """Print the line of a result, unless it is known and expected."""
        if not result.cached or not result.expected:
            self.say(f"[{self.results}/{self._total}] {_result_line(result)}")


class LiveTests(LiveProgress):
    """Shows a bar of the tests above what is in progress. The first unexpected results are printed above both."""

    def __init__(self, total: int = 0) -> None:
        super().__init__()
        self._total = total
        self._results = 0
        self._unexpected = 0

    def on(self, event: Event) -> None:
        match event:
            case TestDone(result):
                self._results += 1
                if result.fails:
                    self._unexpected += 1
                    self._say_unexpected(result)
            case _:
                super().on(event)

    def _say_unexpected(self, result: TestResult) -> None:
        if self._unexpected <= _SHOWN:
            self.say(_result_line(result), "bold red")
        if self._unexpected == _SHOWN:
            self.say("note", "bold", "further unexpected results are counted here; their causes are listed at the end")

    def head(self, now: float) -> list[Text]:
        from rich.text import Text

        width = 30
        filled = width * self._results // max(1, self._total)
        # Actions show progress before the first verdict, which waits for the workers to start.
        done = f" {self._results}/{self._total} tests, {self.actions} actions done  {self.seconds(now):.0f} s"
        trouble = f"  {self._unexpected} unexpected" if self._unexpected else ""
        return [Text.assemble(("━" * filled, "green"), ("━" * (width - filled), "dim"), done, (trouble, "bold red"))]
