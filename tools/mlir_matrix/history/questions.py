"""Answer questions about runs and tests. Whole tables are read by SQL alone; rows become objects for what is shown."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import is_glob, printable, test_glob
from mlir_matrix.base.paths import launcher
from mlir_matrix.base.text import catalog_options
from mlir_matrix.history.checked import BAD, GOOD, UNKNOWN, check
from mlir_matrix.history.record import make_recording
from mlir_matrix.history.spool import SpoolError, new_id
from mlir_matrix.history.store import Store
from mlir_matrix.results.results import SCHEMA, TestResult

if TYPE_CHECKING:
    from mlir_matrix.history.documents import (
        ChangedTest,
        FirstBadTest,
        MonthOfTest,
        MovedCommit,
        RecordedRun,
        ShownTest,
    )

#: Tests that an answer shows, and outcomes of each.
MOST_TESTS, STRIP = 200, 30
_PREFIX = re.compile(r"[0-9a-f]{4,32}")
_LATEST = re.compile(r"latest(?:~(\d{1,6}))?")


@dataclass(frozen=True)
class Ended:
    """How a test ended in a run, or in the last run before it that decided the test."""

    state: int
    outcome: str
    text: str
    #: When the run that decided it was last seen.
    seen: str = ""
    #: Whether the run has the test, and whether an earlier run decided it.
    here: bool = True
    kept: bool = False

    @property
    def words(self) -> str:
        return self.text or self.outcome

    @property
    def passes_unexpectedly(self) -> bool:
        return self.state == BAD and self.outcome == Outcome.PASS

    @property
    def fails(self) -> bool:
        return self.state == BAD and not self.passes_unexpectedly


class Questions:
    """Asks a database."""

    def __init__(self, store: Store, connection: sa.Connection) -> None:
        self.store, self._connection = store, connection
        self._runs: dict[int, RecordedRun] = {}

    def rows(self, statement: str, **values: Any) -> Sequence[Any]:
        return self.store.rows(self._connection, statement, **values)

    # Runs

    def runs(self, keys: Iterable[int] | None = None, most: int = 20) -> list[RecordedRun]:
        """Return runs by their keys, or the last ones; those that repeat the results of others are counted there."""
        if keys is None:
            rows = self.rows("SELECT * FROM runs WHERE same_as IS NULL ORDER BY key DESC LIMIT :most", most=most)
        else:
            rows = self.rows("SELECT * FROM runs WHERE key IN :keys", keys=list(keys))
        again = {
            same: (count, last)
            for same, count, last in self.rows(
                "SELECT same_as, count(*), max(ended) FROM runs WHERE same_as IN :ids GROUP BY same_as",
                ids=[row.id for row in rows],
            )
        }  # fmt: skip
        return [_run(row, *again.get(row.id, (0, row.ended))) for row in rows]

    def named(self, keys: Iterable[int]) -> dict[int, RecordedRun]:
        """Return runs by their keys; each is read once."""
        wanted = set(keys) - self._runs.keys()
        if wanted:
            numbers = dict(self.rows("SELECT id, key FROM runs WHERE key IN :keys", keys=list(wanted)))
            self._runs |= {numbers[run["id"]]: run for run in self.runs(wanted)}
        return self._runs

    def run_key(self, word: str) -> tuple[int, int]:
        """Return the run that ``latest``, ``latest~N`` or a beginning of an identifier names, and the one with its results.

        Raise UsageError.
        """
        if found := _LATEST.fullmatch(word):
            rows = self.rows("SELECT key, same_as FROM runs ORDER BY key DESC LIMIT 1 OFFSET :n", n=int(found[1] or 0))
            if not rows:
                raise UsageError(f"{word}: the history has fewer runs: matrix history show")
        elif _PREFIX.fullmatch(word):
            rows = self.rows("SELECT key, same_as FROM runs WHERE id LIKE :start", start=f"{word}%")
            if len(rows) != 1:
                count = "no run" if not rows else f"{len(rows)} runs"
                raise UsageError(f"{word}: {count} of the history begin with it; list them: matrix history show")
        else:
            raise UsageError(
                f"'{printable(word)}' is no run; expected latest, latest~N, 4 digits of an ID, or a results file"
            )
        named, same_as = rows[0]
        key = named
        if same_as:
            rows = self.rows("SELECT key FROM runs WHERE id = :id", id=same_as)
            if not rows:
                raise UsageError(f"{word}: it repeats run {same_as[:12]}, which this history does not have")
            key = rows[0][0]
        return int(named), int(key)

    def outcomes(self, word: str) -> tuple[RecordedRun, dict[str, Ended]]:
        """Return a run, and how each test ended in it or before; what it did not decide is as it was. Raise UsageError."""
        named, key = self.run_key(word)
        run = self.named([key])[key]
        behaviours = self.behaviours()
        rows = self.rows(
            "SELECT id, behaviour, state FROM results JOIN tests ON tests.key = test WHERE run = :key", key=key
        )
        if len(rows) < run["tests"]:
            raise UsageError(f"{word}: its results were removed: matrix history prune")
        found: dict[str, Ended] = {}
        for test, behaviour, state in rows:
            if test not in found or state < found[test].state:
                found[test] = Ended(state, *behaviours[behaviour], seen=run["last_seen"])
        decided = self.rows(
            """
            SELECT id, run, behaviour, state FROM (
                SELECT test AS decided, max(run * 2 + 1 - state) AS last FROM results WHERE state < 2 AND run <= :named
                GROUP BY test
            ) AS ends
            JOIN results ON test = decided AND run = last / 2 AND state = 1 - last % 2 JOIN tests ON tests.key = test
            """,
            named=named,
        )
        runs = self.named({row.run for row in decided})
        for test, at, behaviour, state in decided:
            here = test in found and found[test].here
            if test not in found or found[test].state == UNKNOWN:
                seen = runs[at]["last_seen"]
                found[test] = Ended(state, *behaviours[behaviour], seen=seen, here=here, kept=True)
        return run, found

    def behaviours(self) -> dict[int, tuple[str, str]]:
        return {key: (outcome, text) for key, outcome, text in self.rows("SELECT key, outcome, text FROM behaviours")}

    # Tests

    def tests(self, patterns: Sequence[str]) -> dict[int, str]:
        """Return the names of tests that patterns match, by key. Raise UsageError if one matches none."""
        found: dict[int, str] = {}
        for pattern in patterns:
            if not is_glob(pattern):
                matched = dict(self.rows("SELECT key, id FROM tests WHERE id = :id", id=pattern))
            else:
                start = re.split(r"[*?\[{]", pattern)[0]
                rows = self.rows(
                    "SELECT key, id FROM tests WHERE substr(id, 1, :n) = :start", n=len(start), start=start
                )
                matched = {key: test for key, test in rows if test_glob(pattern).matches(test)}
            if not matched:
                raise UsageError(f"{printable(pattern)}: the history has no such test")
            found |= matched
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def among(self, keys: Iterable[int], patterns: Sequence[str]) -> dict[int, str]:
        """Return the names of tests; only of those that patterns match, if there are any."""
        wanted = set(keys)
        if patterns:
            return {key: name for key, name in self.tests(patterns).items() if key in wanted}
        return dict(self.rows("SELECT key, id FROM tests WHERE key IN :keys", keys=list(wanted)))

    def show(self, patterns: Sequence[str]) -> tuple[list[ShownTest], int]:
        """Return the last outcomes of tests, and how many tests the patterns match. Raise UsageError."""
        matched = self.tests(patterns)
        shown = dict(list(matched.items())[:MOST_TESTS])
        behaviours = self.behaviours()
        counts = {
            row.test: row
            for row in self.rows(
                "SELECT test, count(*) AS results, sum(CASE WHEN state = 0 THEN 1 ELSE 0 END) AS unexpected, "
                "min(run) AS first FROM results WHERE test IN :tests GROUP BY test", tests=list(shown),
            )
        }  # fmt: skip
        last = (
            "SELECT run, behaviour, state, executed, ms, pins FROM results WHERE test = :test "
            "ORDER BY run DESC, nr DESC LIMIT :n"
        )
        rows = {test: self.rows(last, test=test, n=STRIP) for test in shown}
        decided = {
            test: self.rows(
                "SELECT run, behaviour, state FROM results WHERE test = :test AND state < 2 ORDER BY run DESC, state LIMIT 1",
                test=test,
            ) for test in shown
        }  # fmt: skip
        sets = {row.pins for each in rows.values() for row in each[:1]}
        pins = {
            key: json.loads(text)
            for key, text in self.rows("SELECT key, pins FROM sets WHERE key IN :keys", keys=list(sets))
        }
        runs = self.named(
            [
                *(row.run for found in (rows, decided) for each in found.values() for row in each),
                *(each.first for each in counts.values()),
            ]
        )
        months = self._months(shown)
        found: list[ShownTest] = []
        for test, name in shown.items():
            # Old results may have been removed.
            if rows[test]:
                newest = rows[test][0]
                last_decided = next(iter(decided[test]), newest)
                seconds = [row.ms / 1000 for row in rows[test] if row.executed and row.state != UNKNOWN]
                found.append({
                    "id": name,
                    "recent": [
                        {
                            "run": runs[row.run]["id"], "outcome": Outcome(behaviours[row.behaviour][0]),
                            "unexpected": row.state == BAD, "executed": bool(row.executed),
                        }
                        for row in reversed(rows[test])
                    ],
                    "behaviour": behaviours[last_decided.behaviour][1] or behaviours[last_decided.behaviour][0],
                    "bad": last_decided.state == BAD, "decided": runs[last_decided.run]["last_seen"] if decided[test] else None,
                    "results": counts[test].results, "unexpected": counts[test].unexpected,
                    "first_seen": runs[counts[test].first]["started"], "last_seen": runs[newest.run]["last_seen"],
                    "seconds": round(median(seconds), 4) if seconds else None,
                    "pins": pins[newest.pins], "host": runs[newest.run]["host"], "months": months.get(test, []),
                })  # fmt: skip
        return found, len(matched)

    def _months(self, tests: Iterable[int]) -> dict[int, list[MonthOfTest]]:
        found: dict[int, list[MonthOfTest]] = defaultdict(list)
        for row in self.rows("SELECT * FROM months WHERE test IN :tests ORDER BY month", tests=list(tests)):
            found[row.test].append({
                "month": row.month, "results": row.results, "executed": row.executed, "unexpected": row.unexpected,
                "seconds": round(row.ms / 1000 / row.results, 4), "error_used": row.error_used,
            })  # fmt: skip
        return found

    def first_bad(self, patterns: Sequence[str]) -> tuple[list[FirstBadTest], int]:
        """Return the tests that are bad in the last run that decided them, and how many there are.

        Each has the last good run, and the first bad one after it; those that went bad last come first, and the others are cut.
        """
        # Of the runs that decided a test, the last one counts; there, a bad result does.
        bad = "SELECT test FROM results WHERE state < 2 GROUP BY test HAVING max(run * 2 + 1 - state) % 2 = 1"
        names = self.among([row.test for row in self.rows(bad)], patterns)
        ends = self.rows(
            """
            SELECT test, good, (
                SELECT min(run) FROM results WHERE test = ends.test AND state = 0 AND run > coalesce(good, 0)) AS bad
            FROM (
                SELECT test, max(CASE WHEN state = 1 THEN run END) AS good FROM (
                    SELECT test, run, min(state) AS state FROM results WHERE state < 2 AND test IN :tests GROUP BY test, run
                ) AS ended GROUP BY test
            ) AS ends
            """,
            tests=list(names),
        )  # fmt: skip
        behaviours = self.behaviours()
        ends = sorted(ends, key=lambda row: (-row.bad, names[row.test]))
        shown = ends[:MOST_TESTS]
        runs = self.named([run for row in shown for run in (row.good, row.bad) if run is not None])
        found: list[FirstBadTest] = []
        for row in shown:
            at = {
                run: self.rows(
                    "SELECT behaviour, (SELECT pins FROM sets WHERE key = results.pins) FROM results "
                    "WHERE test = :test AND run = :run AND state = :state", test=row.test, run=run, state=state,
                )[0]
                for run, state in ((row.good, GOOD), (row.bad, BAD)) if run is not None
            }  # fmt: skip
            pins = {run: json.loads(text) for run, (_, text) in at.items()}
            before = pins.get(row.good, {})
            moved = {
                name: [before[name], now]
                for name, now in pins[row.bad].items()
                if name in before and before[name] != now
            }
            found.append({
                "id": names[row.test], "behaviour": behaviours[at[row.bad][0]][1] or behaviours[at[row.bad][0]][0],
                "last_good": runs[row.good] if row.good is not None else None, "first_bad": runs[row.bad],
                "commits": _moved(runs.get(row.good), runs[row.bad]), "pins": moved,
                "bisect": _bisect(names[row.test], moved, runs[row.bad]),
            })  # fmt: skip
        return found, len(ends)


def changed(before: Mapping[str, Ended], after: Mapping[str, Ended]) -> dict[str, list[ChangedTest]]:
    """Return how tests differ between two runs, by the kinds of :class:`Diff`.

    A test that the later run does not decide is as it was when a run decided it last.
    """
    never = Ended(UNKNOWN, "", "", here=False)
    kinds = ("new", "fixed", "changed", "passes", "not_run", "added", "gone")
    found: dict[str, list[ChangedTest]] = {kind: [] for kind in kinds}
    for test in sorted(before.keys() | after.keys()):
        was, now = before.get(test, never), after.get(test, never)
        if now.state == UNKNOWN and was.state != UNKNOWN:
            now = replace(was, here=now.here, kept=True)
        kind = _kind(was, now)
        if kind:
            entry: ChangedTest = {
                "id": test,
                "before": None if kind == "added" else was.words or None,
                "after": None if kind == "gone" else now.words,
            }
            if now.kept and kind != "gone":
                entry["last_seen"] = now.seen
            found[kind].append(entry)
    return found


def _kind(was: Ended, now: Ended) -> str:
    if now.fails:
        # Between the two, only a run of other tests may have had it.
        if now.kept and (was.fails or was.outcome == ""):
            return "not_run"
        if not was.fails:
            return "new"
        return "changed" if (was.outcome, was.text) != (now.outcome, now.text) else ""
    if now.passes_unexpectedly and not was.passes_unexpectedly:
        return "passes"
    if was.fails and now.state == GOOD:
        return "fixed"
    if was.here != now.here:
        return "added" if now.here else "gone"
    return ""


def _run(row: Any, repeats: int, last_seen: str) -> RecordedRun:
    run: RecordedRun = {
        "id": row.id, "host": row.host, "version": row.version, "command": row.command, "catalogs": json.loads(row.catalogs),
        "started": row.started, "ended": row.ended, "stored": row.stored, "interrupted": bool(row.interrupted),
        "tests": row.total, "executed": row.executed, "unexpected": row.unexpected, "repeats": repeats,
        "last_seen": max(row.ended, last_seen),
    }  # fmt: skip
    return run


def _moved(good: RecordedRun | None, bad: RecordedRun) -> list[MovedCommit]:
    """Return the catalogs whose commit changed, or may have: folder, commits, and whether files had changed."""
    before = {each["folder"]: each for each in good["catalogs"]} if good else {}
    found: list[MovedCommit] = []
    for now in bad["catalogs"]:
        was = before.get(now["folder"])
        dirty = now["dirty"] or bool(was and was["dirty"])
        if was and (was["commit"] != now["commit"] or dirty):
            found.append({"folder": now["folder"], "good": was["commit"], "bad": now["commit"], "dirty": dirty})
    return found


def _bisect(test: str, moved: Mapping[str, Sequence[str]], run: RecordedRun) -> str:
    """Return the command that bisects the pins that differ; nothing if none does that can be given."""
    single = {name: both for name, both in moved.items() if not any("," in each for each in both)}
    if not single:
        return ""
    ends = [",".join(f"{name}={both[end]}" for name, both in single.items()) for end in (0, 1)]
    # The first catalog is the program's own.
    catalogs = catalog_options(each["folder"] for each in run["catalogs"][1:])
    return shlex.join([launcher(), "bisect", test, *catalogs, "--good", ends[0], "--bad", ends[1]])


#: Keys of an entry that a result has under other names, or not at all.
_OTHERS = {"property": "tested_property"}


def read_outcomes(file: Path) -> dict[str, Ended]:
    """Read a file of ``matrix run --results``. Raise UsageError."""
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not JSON; make it with: matrix run --results FILE") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"{file}: schema {printable(str(schema))}; expected {SCHEMA}, written by: matrix run --results FILE"
        )
    try:
        results = [_result(entry) for entry in document["tests"]]
        found = check(make_recording(new_id(), results, document["run"], [], {}))
    except (SpoolError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(
            f"{file}: damaged: {printable(str(error))}; make it again with: matrix run --results FILE"
        ) from None
    columns = zip(*found.columns[:3], strict=True)
    return {
        test: Ended(state, found.behaviours[at][1], found.behaviours[at][3], seen=found.ended)
        for test, at, state in columns
    }


def _result(entry: dict[str, Any]) -> TestResult:
    return TestResult(**{_OTHERS.get(name, name): value for name, value in entry.items()})
