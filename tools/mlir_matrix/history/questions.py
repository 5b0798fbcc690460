"""Answer questions about runs and tests. The database reads whole tables, and only shown rows become objects."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import is_glob, printable, test_glob
from mlir_matrix.base.text import milliseconds
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.history.checked import BAD, GOOD, UNKNOWN
from mlir_matrix.history.chosen_runs import ALL_RUNS, ChosenRuns
from mlir_matrix.history.store import Store, among, behaviours, costs, months, results, runs, sets, tests

if TYPE_CHECKING:
    from mlir_matrix.history.documents import (
        ChangedTest,
        MonthOfTest,
        RecentOutcome,
        RecordedRun,
        ShownTest,
    )

#: The most runs and the most tests in an answer, and the most outcomes of each test.
MOST_RUNS, MOST_TESTS, STRIP = 20, 200, 30
_PREFIX = re.compile(r"[0-9a-f]{4,32}")
_LATEST = re.compile(r"latest(?:~(\d{1,6}))?")


@dataclass(frozen=True)
class EndedTest:
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
    """Queries a database, about all runs or some of them."""

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        chosen: ChosenRuns = ALL_RUNS,
        keys: Collection[int] | None = None,
    ) -> None:
        """Query the chosen runs; with ``keys``, only those of them that have these keys."""
        self._connection, self._conditions = connection, _conditions(chosen)
        if keys is not None:
            self._conditions.append(among(runs.c.key, keys))
        self._runs: dict[int, RecordedRun] = {}
        #: The results of these runs.
        self.results: sa.FromClause = results
        if self._conditions:
            of_runs = sa.select(runs.c.key).where(*self._conditions)
            self.results = sa.select(results).where(results.c.run.in_(of_runs)).subquery("chosen")
        #: These results, those of a test in the order of runs. SQLite stores all in this order.
        self.in_order = self.results
        if self._conditions or store.is_server:
            of = self.results.c
            self.in_order = sa.select(self.results).order_by(of.test, of.run, of.nr).subquery("ordered")
        #: The last run that decided a test counts. If that run has several results of the test, a bad one counts.
        self.last_decided = sa.func.max(self.results.c.run * 2 + 1 - self.results.c.state)

    def rows(self, statement: sa.Select[Any], **values: object) -> Sequence[Any]:
        return self._connection.execute(statement, values).all()

    def tuples(self, statement: sa.Select[Any]) -> Sequence[tuple[Any, ...]]:
        """Return rows of numbers as the driver has them. For many rows, it takes half of the time."""
        found: Sequence[tuple[Any, ...]] = self._connection.execute(statement).cursor.fetchall()
        return found

    # Runs

    def runs(self, most: int = MOST_RUNS) -> tuple[list[RecordedRun], int]:
        """Return the last runs, and how many there are. A run that repeats the results of another run only counts there."""
        originals = sa.select(runs).where(runs.c.same_as.is_(None), *self._conditions)
        last = originals.order_by(runs.c.key.desc()).limit(most)
        (count,) = self.rows(sa.select(sa.func.count()).select_from(originals.subquery()))
        return list(self._recorded(last).values()), count[0]

    def seen(self) -> Sequence[Any]:
        """Return rows of all runs by time: the key, and of the run that has the results, its key, host and command."""
        own = runs.alias("own")
        same = runs.c.id == sa.func.coalesce(own.c.same_as, own.c.id)
        statement = sa.select(own.c.key, runs.c.key.label("with_results"), runs.c.host, runs.c.command).join_from(
            own, runs, same
        )
        return self.rows(statement.where(*self._conditions).order_by(own.c.key))

    def named(self, keys: Iterable[int]) -> dict[int, RecordedRun]:
        """Return runs by their keys; each is read once."""
        wanted = set(keys) - self._runs.keys()
        if wanted:
            self._runs |= self._recorded(sa.select(runs).where(among(runs.c.key, wanted)))
        return self._runs

    def _recorded(self, statement: sa.Select[Any]) -> dict[int, RecordedRun]:
        rows = self.rows(statement)
        same_as = runs.c.same_as
        repeats = sa.select(same_as, sa.func.count(), sa.func.max(runs.c.ended)).group_by(same_as)
        repeated = same_as.in_(sa.select(statement.subquery().c.id))
        again = {same: (count, last) for same, count, last in self.rows(repeats.where(repeated))}
        return {row.key: _run(row, *again.get(row.id, (0, row.ended))) for row in rows}

    def run_key(self, word: str) -> tuple[int, int]:
        """Return the run that ``latest``, ``latest~N`` or a beginning of an identifier names, and the one with its results.

        Raise UsageError.
        """
        originals = sa.select(runs.c.id).where(*self._conditions)
        named = sa.func.coalesce(runs.c.same_as, runs.c.id)
        statement = sa.select(runs.c.key, runs.c.same_as).where(named.in_(originals) if self._conditions else sa.true())
        if found := _LATEST.fullmatch(word):
            rows = self.rows(statement.order_by(runs.c.key.desc()).limit(1).offset(int(found[1] or 0)))
            if not rows:
                raise UsageError(f"{word}: the history has fewer runs: matrix history show")
        elif _PREFIX.fullmatch(word):
            rows = self.rows(statement.where(runs.c.id.startswith(word)))
            if len(rows) != 1:
                count = "no run" if not rows else f"{len(rows)} runs"
                raise UsageError(f"{word}: {count} of the history begin with it; list them: matrix history show")
        else:
            raise UsageError(
                f"'{printable(word)}' is no run; expected latest, latest~N, 4 digits of an ID, or a results file"
            )
        found_key, same_as = rows[0]
        key = found_key
        if same_as:
            rows = self.rows(sa.select(runs.c.key).where(runs.c.id == same_as))
            if not rows:
                raise UsageError(f"{word}: it repeats run {same_as[:12]}, which this history does not have")
            key = rows[0][0]
        return int(found_key), int(key)

    def outcomes(self, word: str) -> tuple[RecordedRun, dict[str, EndedTest]]:
        """Return a run and the outcome of each test. A test that it did not decide keeps its earlier one. Raise UsageError."""
        named, key = self.run_key(word)
        run = self.named([key])[key]
        words = self.behaviours()
        with_names = results.join(tests, tests.c.key == results.c.test)
        statement = sa.select(tests.c.id, results.c.behaviour, results.c.state).select_from(with_names)
        rows = self.tuples(statement.where(results.c.run == key))
        if len(rows) < run["tests"]:
            raise UsageError(f"{word}: its results were removed: matrix history prune")
        # Most tests end alike.
        ended = {
            (behaviour, state): EndedTest(state, *words[behaviour], seen=run["last_seen"])
            for behaviour, state in {row[1:] for row in rows}
        }
        found: dict[str, EndedTest] = {}
        for test, behaviour, state in rows:
            if test not in found or state < found[test].state:
                found[test] = ended[behaviour, state]
        of = self.results.c
        decided_here = sa.select(results.c.test).where(results.c.run == key, results.c.state < UNKNOWN)
        others = sa.select(tests.c.key).where(tests.c.key.not_in(decided_here))
        ends = (
            sa.select(of.test, self.last_decided.label("last"))
            .where(of.test.in_(others), of.state < UNKNOWN, of.run <= named)
            .group_by(of.test)
            .subquery("ends")
        )
        decided = self.rows(
            sa.select(tests.c.id, results.c.run, results.c.behaviour, results.c.state)
            .select_from(with_names)
            .join(ends, ends.c.test == results.c.test)
            .where(results.c.run == ends.c.last // 2, results.c.state == 1 - ends.c.last % 2)
        )
        recorded = self.named({row.run for row in decided})
        for test, at, behaviour, state in decided:
            here = test in found
            # A run may have several results of a test.
            if not here or found[test].state == UNKNOWN:
                seen = recorded[at]["last_seen"]
                found[test] = EndedTest(state, *words[behaviour], seen=seen, here=here, kept=True)
        return run, found

    def behaviours(self) -> dict[int, tuple[str, str]]:
        statement = sa.select(behaviours.c.key, behaviours.c.outcome, behaviours.c.text)
        return {key: (outcome, text) for key, outcome, text in self.rows(statement)}

    # Tests

    def tests(self, patterns: Sequence[str]) -> dict[int, str]:
        """Return the names of tests that patterns match, by key. Raise UsageError if one matches none."""
        found: dict[int, str] = {}
        statement, where = sa.select(tests.c.key, tests.c.id), ""
        if self._conditions:
            statement, where = statement.where(sa.exists().where(self.results.c.test == tests.c.key)), " in these runs"
        for pattern in patterns:
            if not is_glob(pattern):
                matched = dict(self.rows(statement.where(tests.c.id == pattern)))
            else:
                start = re.split(r"[*?\[{]", pattern)[0]
                rows = self.rows(statement.where(sa.func.substr(tests.c.id, 1, len(start)) == start))
                matched = {key: test for key, test in rows if test_glob(pattern).matches(test)}
            if not matched:
                raise UsageError(f"{printable(pattern)}: the history has no such test{where}")
            found |= matched
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def among(self, keys: Iterable[int], patterns: Sequence[str]) -> dict[int, str]:
        """Return the names of tests; only of those that patterns match, if there are any."""
        wanted = set(keys)
        if patterns:
            return {key: name for key, name in self.tests(patterns).items() if key in wanted}
        return dict(self.rows(sa.select(tests.c.key, tests.c.id).where(among(tests.c.key, wanted))))

    def show(self, patterns: Sequence[str], most: int = MOST_TESTS) -> tuple[list[ShownTest], int]:
        """Return the last outcomes of tests, and how many tests the patterns match. Raise UsageError."""
        matched = self.tests(patterns)
        shown = dict(list(matched.items())[:most])
        words, of = self.behaviours(), self.results.c
        statement = (
            sa.select(
                of.test,
                sa.func.count().label("results"),
                sa.func.sum(sa.case((of.state == BAD, 1), else_=0)).label("unexpected"),
                sa.func.min(of.run).label("first"),
            )
            .where(among(of.test, shown))
            .group_by(of.test)
        )
        counts = {row.test: row for row in self.rows(statement)}
        of_test = sa.select(self.results).where(of.test == sa.bindparam("test"))
        newest = of_test.order_by(of.run.desc(), of.nr.desc()).limit(STRIP)
        rows = {test: self.rows(newest, test=test) for test in shown}
        last = of_test.where(of.state < UNKNOWN).order_by(of.run.desc(), of.state).limit(1)
        decided = {test: self.rows(last, test=test) for test in shown}
        used = {row.pins for each in rows.values() for row in each[:1]}
        pins = {
            key: json.loads(text)
            for key, text in self.rows(sa.select(sets.c.key, sets.c.pins).where(among(sets.c.key, used)))
        }
        counted = self._costs({row.costs for each in rows.values() for row in each if row.costs is not None})
        recorded = self.named(
            [
                *(row.run for found in (rows, decided) for each in found.values() for row in each),
                *(each.first for each in counts.values()),
            ]
        )
        summaries = self._months(shown)
        found: list[ShownTest] = []
        for test, name in shown.items():
            # prune may have removed the results.
            if rows[test]:
                latest = rows[test][0]
                last_decided = next(iter(decided[test]), latest)
                seconds = [row.ms / 1000 for row in rows[test] if row.executed and row.state != UNKNOWN]
                found.append({
                    "id": name,
                    "recent": [
                        _recent(recorded[row.run], Outcome(words[row.behaviour][0]), row, counted.get(row.costs))
                        for row in reversed(rows[test])
                    ],
                    "behaviour": words[last_decided.behaviour][1] or words[last_decided.behaviour][0],
                    "bad": last_decided.state == BAD, "decided": recorded[last_decided.run]["last_seen"] if decided[test] else None,
                    "results": counts[test].results, "unexpected": counts[test].unexpected,
                    "first_seen": recorded[counts[test].first]["started"], "last_seen": recorded[latest.run]["last_seen"],
                    "seconds": round(median(seconds), 4) if seconds else None,
                    "pins": pins[latest.pins], "host": recorded[latest.run]["host"], "months": summaries.get(test, []),
                })  # fmt: skip
        return found, len(matched)

    def _costs(self, keys: set[int]) -> dict[int, dict[str, float]]:
        statement = sa.select(costs.c.key, costs.c.exact).where(among(costs.c.key, keys))
        return {key: json.loads(text) for key, text in self.rows(statement)}

    def _months(self, keys: Iterable[int]) -> dict[int, list[MonthOfTest]]:
        found: dict[int, list[MonthOfTest]] = defaultdict(list)
        for row in self.rows(sa.select(months).where(among(months.c.test, keys)).order_by(months.c.month)):
            found[row.test].append({
                "month": row.month, "results": row.results, "executed": row.executed, "unexpected": row.unexpected,
                "seconds": round(row.ms / 1000 / row.results, 4), "error_used": row.error_used,
            })  # fmt: skip
        return found


def changed(before: Mapping[str, EndedTest], after: Mapping[str, EndedTest]) -> dict[str, list[ChangedTest]]:
    """Return how tests differ between two runs, by the kinds of :class:`Diff`.

    A test that the later run does not decide keeps its last decided outcome.
    """
    never = EndedTest(UNKNOWN, "", "", here=False)
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


def _kind(was: EndedTest, now: EndedTest) -> str:
    if now.fails:
        # The later run did not decide the test, so the failure is not new in it.
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


def _conditions(chosen: ChosenRuns) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on rows of runs; none for all runs."""
    found = []
    if chosen.host:
        found.append(runs.c.host.regexp_match(f"^{glob_pattern(chosen.host, '.')}$"))
    if chosen.suite:
        # Columns of lists have them in JSON.
        named = runs.c.arguments.regexp_match(re.escape(json.dumps(chosen.suite)))
        found.append(named | (runs.c.arguments == "[]") if chosen.suite == DEFAULT_SUITE else named)
    if chosen.branch:
        name = glob_pattern(json.dumps(chosen.branch), '[^"]')
        found.append(runs.c.catalogs.regexp_match(f'"branch": {name}'))
    if chosen.since:
        later = runs.alias("later")
        repeated = sa.select(later.c.same_as).where(later.c.same_as.is_not(None), later.c.started >= chosen.since)
        found.append((runs.c.started >= chosen.since) | runs.c.id.in_(repeated))
    return found


def glob_pattern(glob: str, character: str) -> str:
    """Return a glob as a regular expression that all databases read alike. ``*`` and ``?`` match ``character``."""
    return re.escape(glob).replace(r"\*", f"{character}*").replace(r"\?", character)


def _recent(run: RecordedRun, outcome: Outcome, row: Any, costs: dict[str, float] | None) -> RecentOutcome:
    found: RecentOutcome = {
        "run": run["id"], "started": run["started"], "host": run["host"], "catalogs": run["catalogs"], "outcome": outcome,
        "unexpected": row.state == BAD, "executed": bool(row.executed), "seconds": row.ms / 1000,
    }  # fmt: skip
    if costs is not None:
        found["costs"] = costs
    return found


def _run(row: Any, repeats: int, last_seen: str) -> RecordedRun:
    run: RecordedRun = {
        "id": row.id, "host": row.host, "version": row.version, "command": row.command, "catalogs": json.loads(row.catalogs),
        "started": row.started, "ended": row.ended, "seconds": max(0, milliseconds(row.ended) - milliseconds(row.started)) / 1000,
        "stored": row.stored, "interrupted": bool(row.interrupted),
        "tests": row.total, "executed": row.executed, "unexpected": row.unexpected, "repeats": repeats,
        "last_seen": max(row.ended, last_seen),
    }  # fmt: skip
    return run


def read_outcomes(file: Path) -> dict[str, EndedTest]:
    """Read a file of ``matrix run --results``. Raise UsageError."""
    from mlir_matrix.history.results_files import read_run  # imports the models of results

    found = read_run(file)
    columns = zip(*found.columns[:3], strict=True)
    return {
        test: EndedTest(state, found.behaviours[at][1], found.behaviours[at][3], seen=found.ended)
        for test, at, state in columns
    }
