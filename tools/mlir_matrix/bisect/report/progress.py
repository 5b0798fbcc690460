"""Show a bisection while it runs: the axis as a line that fills, and what is running."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mlir_matrix.base.events import Listener
from mlir_matrix.base.text import harmless
from mlir_matrix.bisect.driver import SearchDriver
from mlir_matrix.bisect.observations import Point
from mlir_matrix.execute.progress import shown
from mlir_matrix.results.report.progress import LiveTests, PlainTests
from mlir_matrix.results.results import TestResult

if TYPE_CHECKING:
    from rich.text import Text

#: Columns of an axis, and tests that are shown.
_WIDTH, _TESTS = 60, 6


def shown_on_axis(driver: SearchDriver, *, quiet: bool) -> AbstractContextManager[Listener]:
    """Show the progress of a bisection on stderr: its axes on a terminal, else a line for each observation."""
    return shown(quiet=quiet, live=lambda: _AxisProgress(driver), plain=_PlainAxisProgress)


class _PlainAxisProgress(PlainTests):
    """Prints a line for each observation that is made, not for those from the cache."""

    def say_result(self, result: TestResult) -> None:
        if not result.cached:
            reason = f"  {result.reason[:120]}" if result.reason else ""
            self.say(f"[{self.results}] {result.outcome:<14} {result.id}{reason}")


class _AxisProgress(LiveTests):
    """Shows the axis of each test above what is running."""

    def __init__(self, driver: SearchDriver) -> None:
        self._driver = driver
        super().__init__()

    def head(self, now: float) -> list[Text]:
        from rich.text import Text

        tests = self._driver.prober.observations.tests
        lines = [Text(self._times(now), style="dim")]
        for test in tests[:_TESTS]:
            lines.append(Text.assemble("  ", *self._marks(test), f"  {harmless(test)}"))
        if len(tests) > _TESTS:
            lines.append(Text(f"  and {len(tests) - _TESTS} more tests", style="dim"))
        return lines

    def _times(self, now: float) -> str:
        axis, rounds, left = self._driver.axis, self._driver.rounds, self._driver.left
        words = f"{axis.names[0]} to {axis.names[-1]}, {self.seconds(now):.0f} s"
        if not rounds or not left:
            return words
        more = math.ceil(math.log(max(left.values()), self._driver.strategy.jobs + 1)) + 1
        seconds = more * self.seconds(now) / rounds
        return f"{words}; {max(left.values())} candidates, about {more} rounds or {seconds:.0f} s to go"

    def _marks(self, test: str) -> Iterator[tuple[str, str]]:
        """Yield a mark for each point, or for as many together as fit."""
        size = math.ceil(len(self._driver.axis) / _WIDTH)
        points = {point.index: point for point in self._driver.prober.observations.points(test)}
        probed = set(self._driver.prober.running.get(test, ()))
        for start in range(0, len(self._driver.axis), size):
            here = range(start, min(start + size, len(self._driver.axis)))
            seen = [points[index] for index in here if index in points]
            if seen:
                yield _mark(seen)
            else:
                yield ("◌", "cyan") if probed.intersection(here) else ("·", "dim")


def _mark(points: list[Point]) -> tuple[str, str]:
    """Return the mark of neighbouring points, the one that says most of them: a failure, a pass, nothing."""
    known = frozenset(each for point in points for each in point.behaviours)
    if not known:
        return "?", "dim"
    passes = {each.passes for each in known}
    if passes == {True}:
        return "●", "green"
    return ("◐", "yellow") if True in passes else ("●", "red")
