"""Record durations of tests, and estimate those of tests that never ran."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import read_document
from mlir_matrix.base.names import TestId, printable
from mlir_matrix.expand.expansion import Test

if TYPE_CHECKING:
    from mlir_matrix.fleet.documents import Durations

#: How many recent executions of a test count.
RECENT = 9
#: Since 2, seconds of failures are negative.
VERSION = 2
#: Seconds to wait for the lock, which another run holds while it writes.
_PATIENCE = 5.0
_CREATE = (
    "CREATE TABLE IF NOT EXISTS tests (test TEXT PRIMARY KEY, recent TEXT NOT NULL, last_run TEXT NOT NULL, "
    "last_failure TEXT NOT NULL) WITHOUT ROWID"
)


class Execution(NamedTuple):
    """The execution of a test in a run, or its result from the cache."""

    test: str
    #: Seconds of its actions when they were executed.
    seconds: float
    expected: bool
    cached: bool


class _OtherVersion(sqlite3.Error):
    """Raised for a database of a newer version."""


def summary_file(state: Path) -> Path:
    return state / "history" / "summary.sqlite"


def read_summary(state: Path, warn: Callable[[str], object] = str) -> Snapshot:
    """Return the recent executions. If they cannot be read, warn and return none."""
    file = summary_file(state)
    if not file.exists():
        return Snapshot()
    try:
        with _opened(file, "ro") as database:
            rows = database.execute("SELECT test, recent, last_run, last_failure FROM tests").fetchall()
        found = {
            test: Recorded(typical_seconds([*map(float, recent.split(","))]), ran, failed)
            for test, recent, ran, failed in rows
        }
    except (sqlite3.Error, ValueError, TypeError) as error:
        warn(f"{file}: recorded durations cannot be read, so none are used: {error}")
        return Snapshot()
    return Snapshot(found, max((each.last_run for each in found.values()), default=""))


def update_summary(state: Path, executions: Sequence[Execution], ended: str) -> str:
    """Add the executions of a run. Return why they could not be added, or an empty string.

    A result from the cache counts as an execution. Its seconds count only if no others are known.
    """
    if not executions:
        return ""
    file = summary_file(state)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            _add(file, executions, ended)
        except (sqlite3.OperationalError, _OtherVersion):
            raise
        except (sqlite3.DatabaseError, ValueError, TypeError):
            file.replace(file.with_suffix(".damaged"))
            _add(file, executions, ended)
            return f"{file} was damaged; a new one has the durations of this run"
    except (OSError, sqlite3.Error) as error:
        return f"durations of this run are not recorded: {file}: {error}"
    return ""


def _add(file: Path, executions: Iterable[Execution], ended: str) -> None:
    with _opened(file, "rwc") as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(_CREATE)
        database.execute(f"PRAGMA user_version = {VERSION}")
        rows_before = database.execute("SELECT test, recent, last_failure FROM tests")
        known = {test: (recent, failed) for test, recent, failed in rows_before}
        rows = {}
        for each in executions:
            recent, failed = known.get(each.test, ("", ""))
            seconds = f"{each.seconds if each.expected else -each.seconds:.4f}"
            if not recent:
                recent = seconds
            elif not each.cached:
                recent = f"{recent},{seconds}"
            if recent.count(",") >= RECENT:
                recent = recent.partition(",")[2]
            failed = failed if each.expected else ended
            known[each.test] = recent, failed
            rows[each.test] = (each.test, recent, ended, failed)
        database.executemany("REPLACE INTO tests VALUES (?, ?, ?, ?)", rows.values())
        database.execute("COMMIT")


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    # Without isolation level, so that BEGIN and COMMIT are explicit.
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise _OtherVersion(f"its version is {version}, and this program knows {VERSION}")
        yield database


SCHEMA = "mlir-matrix/durations/v1"
#: As ``base.text.now`` writes times; they sort as text.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recent executions of one test."""

    #: Median seconds of all its actions, over its recent executions.
    seconds: float
    #: When it was last executed, in UTC.
    last_run: str
    #: When it last ended in an unexpected outcome; empty if it never did.
    last_failure: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The records of tests by identifier, and the time of these records."""

    tests: Mapping[str, Recorded] = field(default_factory=dict)
    taken: str = ""

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the records. Shards with equal digests belong together."""
        return digest_value(self.to_document()["tests"])

    def to_document(self) -> Durations:
        records = {
            test: {"seconds": each.seconds, "last_run": each.last_run}
            | ({"last_failure": each.last_failure} if each.last_failure else {})
            for test, each in sorted(self.tests.items())
        }
        summary = {"tests": len(records), "seconds": round(sum(each.seconds for each in self.tests.values()), 3)}
        return {"schema": SCHEMA, "taken": self.taken, "summary": summary, "tests": records}  # type: ignore[typeddict-item] # keys may be absent


def typical_seconds(recent: Sequence[float]) -> float:
    """Return the typical seconds of a test from its recent executions, in which failures are negative.

    A busy machine makes tests slower, and nothing makes them faster, so take the median of the faster half. A failure may end
    early, so it counts like a pass, unless it took longer.
    """
    passes = [each for each in recent if each > 0]
    usual = _quietest(passes) if passes else 0.0
    return (
        usual if len(passes) == len(recent) else _quietest([each if each > 0 else max(-each, usual) for each in recent])
    )


def _quietest(seconds: Sequence[float]) -> float:
    # Computed here, because statistics.median takes three times as long.
    half = sorted(seconds)[: (len(seconds) + 1) // 2]
    return (half[(len(half) - 1) // 2] + half[len(half) // 2]) / 2


def read_snapshot(file: Path) -> Snapshot:
    """Read a file that ``matrix history export`` wrote. Raise UsageError."""
    document = read_document(file, SCHEMA, "matrix history export")
    records = document.get("tests")
    if not isinstance(records, dict):
        raise UsageError(f"{file}: 'tests' is not an object; make it again with: matrix history export")
    return Snapshot(
        {test: _record(file, test, value) for test, value in records.items()}, str(document.get("taken", ""))
    )


def _record(file: Path, test: str, value: object) -> Recorded:
    if isinstance(value, dict):
        seconds, ran, failed = value.get("seconds"), value.get("last_run"), value.get("last_failure", "")
        times = [each for each in (ran, failed) if each != ""]
        right = isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds >= 0
        if right and all(isinstance(each, str) and _TIME.fullmatch(each) for each in times):
            return Recorded(float(seconds), str(ran), failed)  # type: ignore[arg-type] # it is finite
    wanted = "expected 'seconds' (a number) and 'last_run' (such as 2026-01-31T12:00:00.000Z)"
    raise UsageError(f"{file}: test '{printable(test)}': {wanted}")


#: Assumed seconds of a test if no test has a record.
UNKNOWN_S = 1.0


class Estimates:
    """Seconds by test: the recorded ones, else the median of its cell, else of its target, else of all tests."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._recorded = snapshot.tests

    def seconds(self, test: Test) -> float:
        recorded = self._recorded.get(test.id)
        if recorded is not None:
            return recorded.seconds
        cells, targets, overall = self._medians
        return cells.get(test.identity.cell, targets.get(test.target, overall))

    @cached_property
    def _medians(self) -> tuple[dict[str, float], dict[str, float], float]:
        cells: dict[str, list[float]] = defaultdict(list)
        targets: dict[str, list[float]] = defaultdict(list)
        for identifier, recorded in self._recorded.items():
            with suppress(ValueError):
                test = TestId.parse(identifier)
                cells[test.cell].append(recorded.seconds)
                targets[test.target].append(recorded.seconds)
        every = [recorded.seconds for recorded in self._recorded.values()]
        return (
            {cell: median(each) for cell, each in cells.items()},
            {target: median(each) for target, each in targets.items()},
            median(every) if every else UNKNOWN_S,
        )
