"""Keep the recent executions of tests in one small database, for plans: by the standard library's sqlite3 alone.

Each run that executed something updates it. It can be made again from the history, so that a damaged one is replaced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.history.snapshot import Recorded, Snapshot, typical_seconds
from mlir_matrix.judge.results import NOT_RUN, TestResult

#: Executions of a test whose durations count.
RECENT = 9
#: Since 2, seconds of failures are negative.
VERSION = 2
#: Another run holds the lock while it writes. Seconds.
_PATIENCE = 5.0
_CREATE = (
    "CREATE TABLE IF NOT EXISTS tests (test TEXT PRIMARY KEY, recent TEXT NOT NULL, last_run TEXT NOT NULL, "
    "last_failure TEXT NOT NULL) WITHOUT ROWID"
)


class _OtherVersion(sqlite3.Error):
    """Raised for a database of a newer version."""


def summary_file(state: Path) -> Path:
    return state / "history" / "summary.sqlite"


def read_summary(state: Path, warn: Callable[[str], object] = str) -> Snapshot:
    """Return the recent executions; those that cannot be read are none, with a warning."""
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


def update_summary(state: Path, results: Iterable[TestResult], ended: str) -> str:
    """Add what a run decided; return why it could not be added, or nothing.

    A result from the cache counts as a run. Its seconds, those of its actions when they ran, count if no others are known.
    """
    decided = [each for each in results if each.outcome not in (*NOT_RUN, Outcome.INFRA_ERROR)]
    if not decided:
        return ""
    file = summary_file(state)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            _add(file, decided, ended)
        except (sqlite3.OperationalError, _OtherVersion):
            raise
        except (sqlite3.DatabaseError, ValueError, TypeError):
            file.replace(file.with_suffix(".damaged"))
            _add(file, decided, ended)
            return f"{file} was damaged; a new one has the durations of this run"
    except (OSError, sqlite3.Error) as error:
        return f"durations of this run are not recorded: {file}: {error}"
    return ""


def _add(file: Path, decided: Iterable[TestResult], ended: str) -> None:
    with _opened(file, "rwc") as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(_CREATE)
        database.execute(f"PRAGMA user_version = {VERSION}")
        known = {test: (recent, failed) for test, recent, failed in _rows(database)}
        rows = {}
        for each in decided:
            recent, failed = known.get(each.id, ("", ""))
            seconds = f"{each.duration_s if each.expected else -each.duration_s:.4f}"
            if not recent:
                recent = seconds
            elif not each.cached:
                recent = f"{recent},{seconds}"
            if recent.count(",") >= RECENT:
                recent = recent.partition(",")[2]
            failed = failed if each.expected else ended
            known[each.id] = recent, failed
            rows[each.id] = (each.id, recent, ended, failed)
        database.executemany("REPLACE INTO tests VALUES (?, ?, ?, ?)", rows.values())
        database.execute("COMMIT")


def _rows(database: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    return database.execute("SELECT test, recent, last_failure FROM tests")


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    # Each transaction begins and ends by its own words.
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise _OtherVersion(f"its version is {version}, and this program knows {VERSION}")
        yield database
