"""Write the events of a run as lines of JSON, each in one write, for programs that follow the run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Event, PackageProgress, ignore
from mlir_matrix.base.text import now
from mlir_matrix.results.results import Run, TestDone, TestResult, summarise

if TYPE_CHECKING:
    from mlir_matrix.plan.planner import PlannedTests
    from mlir_matrix.results.documents import StartedRun
    from mlir_matrix.results.run_folder import RunFolder

#: The most bytes of a line: Buildbot cuts lines at 4,096, and up to this size a write to a pipe is atomic.
LONGEST = 4_000
_JSON = json.JSONEncoder(separators=(",", ":"))
#: Bytes below which a value is not cut.
_SHORT = 100
#: Keys of an entry that are not absent but empty if they are cut.
_REQUIRED = frozenset({"pins", "environments", "metrics"})
#: Seconds between events of a package.
_EVERY_S = 1.0


class EventLog:
    """The events of a run, in a file or on stdout. If a write fails, the log ends but the run continues."""

    def __init__(self, path: Path | None) -> None:
        """Open the log; None for no log. Raise InfrastructureError."""
        self._path = path
        self._descriptor: int | None = None
        self._trouble: InfrastructureError | None = None
        self._folder: RunFolder | None = None
        self._number = 0
        self._finished: set[str] = set()
        self._packages: dict[tuple[str, str], float] = {}
        #: By cell: the number of tests that run, and of those that are not finished.
        self._tests: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._begun: set[str] = set()
        #: By action that has not started: the cells that need it.
        self._cells: dict[str, list[str]] = {}
        if path is not None and str(path) != "-":
            try:
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            except OSError as error:
                raise InfrastructureError(f"--events {path}: {error.strerror}") from None
        elif path is not None:
            if sys.stdout is None:
                raise UsageError("--events -: stdout is closed")
            self._descriptor = sys.stdout.fileno()

    def planned(
        self, run: StartedRun, *, tests: int, unsupported: int, folder: RunFolder, plan: PlannedTests | None = None
    ) -> None:
        """Write the first event. Events that are too long for a line go to the folder. With a plan, cells have events."""
        self._folder = folder
        if plan is not None and self._descriptor is not None:
            rows = {test.id: test.identity.row for test in plan.tests if test.id in plan.verdicts}
            self._count(rows.values())
            self._cells = _cells_of_actions(plan, rows)
        self._write("planned", {"schema": "mlir-matrix/events/v1", "tests": tests, "unsupported": unsupported}, run=run)

    def listener(self) -> Callable[[Event], object]:
        """Return the listener that writes the events of an executor. It ignores most of them."""
        from mlir_matrix.execute.job import ActionStarted  # an unchanged run needs none of the executor

        def on(event: Event) -> None:
            match event:
                case TestDone(result):
                    self._test(result)
                case ActionStarted(action):
                    for cell in self._cells.pop(action.id, ()):
                        self._begin(cell)
                    started = {"action": action.id, "kind": action.tool, "environment": action.environment}
                    self._write("started", started)
                case PackageProgress():
                    self._package(event)

        return ignore if self._descriptor is None else on

    def ended(self, run: Run) -> None:
        """Write the tests that did not run, and the last event. Raise InfrastructureError if the log is not complete."""
        missing = [result for result in run.results if result.id not in self._finished]
        if not (self._tests or self._finished):
            # In an unchanged run, all tests end here.
            self._count(each.identity.row for each in missing if not _is_left_out(each))
        for result in missing:
            self._test(result)
        if self._descriptor is not None:
            summary = {"summary": summarise(run.results), "interrupted": run.interrupted, "executed": run.executed}
            self._write("ended", summary)
        if self._trouble is not None:
            raise self._trouble

    def _test(self, result: TestResult) -> None:
        if self._descriptor is None:
            return
        cell = result.identity.row
        self._begin(cell)
        self._write("finished", {"cell": cell}, test=result.to_json())
        self._finished.add(result.id)
        if _is_left_out(result):
            return
        self._left[cell] -= 1
        if self._left[cell] == 0:
            self._write("cell", {"cell": cell, "state": "finished", "tests": self._tests[cell]})

    def _count(self, cells: Iterable[str]) -> None:
        self._tests.update(cells)
        self._left.update(self._tests)

    def _begin(self, cell: str) -> None:
        """Write once that a cell has started. A cell in which nothing runs never starts."""
        if self._tests[cell] and cell not in self._begun:
            self._begun.add(cell)
            self._write("cell", {"cell": cell, "state": "started", "tests": self._tests[cell]})

    def _package(self, progress: PackageProgress) -> None:
        at = time.monotonic()
        if not (progress.error or progress.done):
            if at - self._packages.get((progress.package, progress.phase), -_EVERY_S) < _EVERY_S:
                return
            self._packages[progress.package, progress.phase] = at
        state: str = progress.phase
        if progress.error:
            state = "error"
        elif progress.done:
            state = "installed"
        event = {"package": progress.package, "state": state, "received": progress.received, "total": progress.total}
        self._write("package", event | ({"error": progress.error} if progress.error else {}))

    def _write(self, name: str, values: dict[str, Any], **long: Any) -> None:
        """Write an event. ``long`` has the object with values that may be too long for a line; by default the event."""
        if self._descriptor is None:
            return
        self._number += 1
        event: dict[str, Any] = {"event": name, "time": now(), **values, **long}
        line = _encoded(event)
        if len(line) > LONGEST:
            line = self._cut(event, line, next(iter(long), ""))
        try:
            _write_all(self._descriptor, line)
        except BrokenPipeError:
            # The reader has closed the pipe.
            self._descriptor = None
        except OSError as error:
            self._descriptor = None
            self._trouble = InfrastructureError(
                f"--events {self._path}: {error.strerror}; it has {self._number - 1} events, and the later ones are missing"
            )

    def _cut(self, event: dict[str, Any], line: bytes, key: str) -> bytes:
        """Write an event to a file. Return a line that names the file and has the values that fit."""
        assert self._folder is not None, "no event comes before the first"
        with suppress(OSError):
            file = self._folder.path / "events" / f"{self._number:06}.json"
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(line)
            event["file"] = str(file)
        values = event
        if key:
            values = event[key] = dict(event[key])
        while len(line := _encoded(event)) > LONGEST:
            name = max(values.keys() - {"file", "id"}, key=lambda each: len(_encoded(values[each])))
            value = values[name]
            if len(_encoded(value)) < _SHORT:
                break
            if isinstance(value, str):
                values[name] = f"{value[: len(value) // 2]}…"
            elif name in _REQUIRED:
                values[name] = {}
            else:
                del values[name]
        return line


def _cells_of_actions(plan: PlannedTests, rows: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the cells that need each action, from the cell of each test. Actions that build libraries start no cell."""
    from mlir_matrix.plan.graph import BUILDING  # not needed for an unchanged run

    names = list(dict.fromkeys(rows.values()))
    bits = {name: 1 << number for number, name in enumerate(names)}
    needed: Counter[str] = Counter()
    for test, cell in rows.items():
        needed[plan.verdicts[test]] |= bits[cell]
    # Sources come before the actions that need them.
    for identifier, action in reversed(plan.graph.actions.items()):
        for source in action.sources:
            needed[source] |= needed[identifier]
    built = {identifier for identifier, action in plan.graph.actions.items() if action.tool in BUILDING}
    return {
        action: [name for name in names if cells & bits[name]]
        for action, cells in needed.items()
        if action not in built
    }


def _encoded(value: object) -> bytes:
    return _JSON.encode(value).encode() + b"\n"


def _write_all(descriptor: int, line: bytes) -> None:
    """Write a line completely, or nothing of it if the disk is full."""
    written = os.write(descriptor, line)
    try:
        while written < len(line):
            written += os.write(descriptor, line[written:])
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR) - written)
        raise


def _is_left_out(result: TestResult) -> bool:
    """Return whether no cell counts a test, because the plan says that it is unsupported. An action may also find that."""
    return result.outcome == Outcome.UNSUPPORTED and not result.stage
