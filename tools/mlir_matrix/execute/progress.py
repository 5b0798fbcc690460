"""Show the progress of packages and actions on stderr: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlir_matrix.base.events import Event, Listener, Note, PackageProgress, Tick, ignore
from mlir_matrix.base.text import counted, harmless
from mlir_matrix.execute.c_libraries import builds_c_library
from mlir_matrix.execute.job import ActionDone, ActionStarted
from mlir_matrix.plan.graph import PlannedAction

if TYPE_CHECKING:
    from rich.text import Text


@contextmanager
def shown(
    *, quiet: bool, live: Callable[[], LiveProgress] | None = None, plain: Callable[[], PlainProgress] | None = None
) -> Iterator[Listener]:
    """Show progress on stderr: a live display on a terminal, else plain lines. ``live`` and ``plain`` make other displays."""
    # sys.stderr is None if it was closed before this process started.
    if quiet or sys.stderr is None:
        yield ignore
    elif sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb":
        display = live() if live else LiveProgress()
        try:
            yield display.on
        finally:
            display.close()
    else:
        yield (plain() if plain else PlainProgress()).on


class PlainProgress:
    """Prints a line for each package, for logs."""

    _EVERY_S = 15.0

    def __init__(self) -> None:
        self._waited = False
        self._last: dict[tuple[str, str], float] = {}
        self._pace = _Pace()

    def on(self, event: Event) -> None:
        match event:
            case ActionStarted(action) if builds_c_library(action):
                self.say(f"building       {_name(action)}")
            case PackageProgress():
                self._package(event)
            case Note(text):
                self.say(f"note           {text}")
            case Tick(waiting) if waiting and not self._waited:
                self._waited = True
                self.say("waiting        for actions that other runs are executing")

    def _package(self, progress: PackageProgress) -> None:
        now, phase = time.monotonic(), (progress.package, progress.phase)
        how_far = self._pace.how_far(progress, now)
        if progress.error:
            self.say(f"{'unavailable' if progress.unavailable else 'error':<14} {progress.error}")
        elif progress.done:
            self.say(f"installed      {progress.package}")
        elif phase not in self._last or (progress.total and now - self._last[phase] > self._EVERY_S):
            how_far = f": {how_far}" if phase in self._last else ""
            self._last[phase] = now
            self.say(f"{progress.phase:<14} {progress.package}{how_far}")

    @staticmethod
    def say(line: str) -> None:
        print(harmless(line), file=sys.stderr, flush=True)


class LiveProgress:
    """Redraws a few lines with the packages and actions in progress."""

    _REDRAW_S = 0.2

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.actions = 0
        self._waiting = 0
        self._began = self._drawn = time.monotonic()
        #: Labels and start times of actions, by identifier.
        self._running: dict[str, tuple[str, float]] = {}
        self._packages: dict[str, PackageProgress] = {}
        self._pace = _Pace()
        # Without emoji: text from programs may contain ':bug:'.
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def on(self, event: Event) -> None:
        match event:
            case ActionStarted(action):
                self._running[action.id] = (_name(action), time.monotonic())
            case ActionDone(action):
                self._running.pop(action.id, None)
                self.actions += 1
            case PackageProgress(package=package, done=True):
                self._packages.pop(package, None)
            case PackageProgress(package=package, error=error, unavailable=unavailable) if error:
                self._packages.pop(package, None)
                self.say(*(("unavailable", "bold") if unavailable else ("error", "bold red")), error)
            case PackageProgress():
                self._packages[event.package] = event
            case Note(text):
                self.say("note", "bold", text)
            case Tick(waiting):
                self._tick(waiting)

    def say(self, words: str, style: str, text: str = "") -> None:
        """Print a line above the display, without markup: an error may contain ``[/dev/eth0]``."""
        from rich.text import Text

        self._console.print(Text.assemble((words, style), f" {harmless(text)}" if text else ""), soft_wrap=True)

    def _tick(self, waiting: int) -> None:
        self._waiting = waiting
        now = time.monotonic()
        if now - self._drawn >= self._REDRAW_S:
            self._drawn = now
            self._live.update(self._render(now), refresh=True)

    def close(self) -> None:
        self._live.update("", refresh=True)
        self._live.stop()

    def head(self, now: float) -> list[Text]:
        """Return what is above the packages and actions."""
        from rich.text import Text

        done = f"{counted(self.actions, 'action')} done  " if self.actions else ""
        return [Text(f"{done}{self.seconds(now):.0f} s")]

    def seconds(self, now: float) -> float:
        """Return how long this display has been open."""
        return now - self._began

    def _render(self, now: float) -> Text:
        from rich.text import Text

        lines = self.head(now)
        for package in list(self._packages.values())[:4]:
            lines.append(_line(package.phase, "cyan", f" {package.package}", self._pace.how_far(package, now)))
        for name, since in list(self._running.values())[:4]:
            lines.append(_line("running", "blue", f"  {name}", f"{now - since:.1f} s"))
        if self._waiting:
            lines.append(
                _line("waiting", "blue", "  for other runs that execute the same", counted(self._waiting, "action"))
            )
        return Text("\n").join(lines)


def _line(words: str, style: str, what: str, how_far: str) -> Text:
    from rich.text import Text

    return Text.assemble("  ", (words, style), harmless(what), "  ", (how_far, "dim"))


def _name(action: PlannedAction) -> str:
    """Return the label of an action without its digest."""
    if builds_c_library(action):
        return f"the C library for {action.params['triple']} (once, about half a minute)"
    return action.label


class _Pace:
    """Estimates when the phases of packages end, from their progress since this was first asked."""

    _KNOWN_AFTER_S = 2.0

    def __init__(self) -> None:
        self._began: dict[tuple[str, str], tuple[float, int]] = {}

    def how_far(self, progress: PackageProgress, now: float) -> str:
        """Return how much of a phase is done, and how long the rest takes at its pace so far, once that is known."""
        if not progress.total:
            return "…"
        words = f"{progress.received / 1e6:.0f} of {progress.total / 1e6:.0f} MB"
        if progress.phase == "building":
            words = f"{progress.received} of {progress.total} steps"
        # An interrupted download does not begin at 0.
        began, received = self._began.setdefault((progress.package, progress.phase), (now, progress.received))
        done, rest = progress.received - received, progress.total - progress.received
        if now - began < self._KNOWN_AFTER_S or done <= 0 or rest <= 0:
            return words
        left_s = (now - began) * rest / done
        left = f"{left_s:.0f} s" if left_s < 120 else f"{left_s / 60:.0f} min"
        return f"{words}, about {left} left"


class Counting:
    """Reports every 15 s how many actions of a graph are finished."""

    _EVERY_S = 15.0

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total, self._say, self._ended, self._last = total, say, 0, time.monotonic()

    def on(self, event: Event) -> None:
        match event:
            case ActionDone():
                self._ended += 1
            case PackageProgress(done=True):
                self._say(f"installed {event.package}")
            case Tick() if time.monotonic() - self._last >= self._EVERY_S:
                self._last = time.monotonic()
                self._say(f"{self._ended} of {self._total} actions done")
