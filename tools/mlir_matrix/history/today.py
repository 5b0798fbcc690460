"""Answer what is new since a time: what broke, by cause, on which machines, and what changed since it last worked."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import printable
from mlir_matrix.base.text import at, counted, milliseconds, minute
from mlir_matrix.history.bisect_command import BisectCommands
from mlir_matrix.history.checked import BAD, GOOD, UNKNOWN
from mlir_matrix.history.chosen_runs import ALL_RUNS, ChosenRuns
from mlir_matrix.history.ends import End, LastResults
from mlir_matrix.history.first_bad import details, went_bad
from mlir_matrix.history.questions import Questions, glob_pattern
from mlir_matrix.history.record import QUARANTINE
from mlir_matrix.history.store import Store, among, causes, runs, sets, tests
from mlir_matrix.history.trends import Trends
from mlir_matrix.results.cause_globs import RanTests

if TYPE_CHECKING:
    from mlir_matrix.history.documents import FirstBadTest, SlowerTest, Today, TodayCause, TodayMachine, TodayPlace

#: The most causes of a kind whose first bad runs to look up.
_MOST_CAUSES = 50
#: A machine without a run since is named if it had one in this many times the asked time before.
_USUAL = 7
#: Clocks may differ by this many milliseconds.
_CLOCK_MS = 120_000
_PIN = re.compile(r"--pin(?:-step)?[ =]'?([^\s;'\"]+)")


class Series(NamedTuple):
    """A machine, and the pins of command lines. A test is compared with the same series before."""

    host: str
    pins: str

    @classmethod
    def of(cls, host: str, command: str) -> Series:
        """Return the series of a run."""
        return cls(host, " ".join(sorted(set(_PIN.findall(command)))))

    @property
    def words(self) -> str:
        return f"{self.host} ({self.pins})" if self.pins else self.host


@dataclass
class _Failing:
    """The tests of a cause, by series; ``row`` has the cause, and is None for runs of older programs."""

    key: str
    words: str
    row: Any
    tests: dict[Series, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def title(self) -> str:
        return str(self.row.title) if self.row else self.words

    @property
    def file(self) -> str:
        return str(self.row.file) if self.row else ""

    def example(self, *series: Series) -> str:
        """Return the test to look at first, of these series or of all."""
        found = sorted(test for each in series or self.tests for test in self.tests[each])
        return self.row.example if self.row and self.row.example in found else found[0]


class Morning:
    """Compares the runs since a time with those before."""

    def __init__(
        self, store: Store, connection: sa.Connection, chosen: ChosenRuns, since: str, now: str, *, pin: str = ""
    ) -> None:
        """Raise UsageError if the time is in the future, or if the history has no such run, or no result with the pin.

        ``pin`` chooses the results since: those with a release of a component, or one that begins with it, ``llvm=22``.
        """
        if since > now:
            raise UsageError(f"--since {minute(since)} is in the future: it is {minute(now)}")
        self._since, self._now, self._start = since, now, milliseconds(since)
        self._of_runs: Callable[[Collection[int]], Questions] = partial(Questions, store, connection, chosen)
        self._questions = Questions(store, connection, chosen)
        self._before: dict[Series, list[int]] = defaultdict(list)
        self._during: dict[Series, list[int]] = defaultdict(list)
        #: The run that has the results of a run.
        self._with_results: dict[int, int] = {}
        for row in self._questions.seen():
            series = Series.of(row.host, row.command)
            self._with_results[row.key] = row.with_results
            (self._before if row.key < self._start else self._during)[series].append(row.key)
        if chosen != ALL_RUNS and not self._before and not self._during:
            raise UsageError(_no_run(Questions(store, connection), chosen))
        # A test with several releases of a component has them separated by commas.
        component, _, release = pin.partition("=")
        named = f'{re.escape(json.dumps(component))}: "([^"]*,)?{glob_pattern(release, "[^,]")}[.,+"]'
        pinned = sa.select(sets.c.key).where(sets.c.pins.regexp_match(named))
        self._pinned = {row.key for row in self._questions.rows(pinned)} if pin else None
        if pin and not self._pinned:
            raise UsageError(f"--pin {printable(pin)}: no result of the history has this release")
        self._causes = {row.key: row for row in self._questions.rows(sa.select(causes))}
        self._commands = BisectCommands()

    def document(self, database: str, *, slower: list[SlowerTest] | None = None) -> Today:
        """Return the whole answer. ``slower``: the tests that became slower since, if the caller knows them."""
        kinds: dict[str, dict[str, _Failing]] = {name: {} for name in ("new", "changed", "fixed", "still", "trouble")}
        machines: list[TodayMachine] = []
        notes = list(self._silent())
        ran, turned = set[int](), set[int]()
        names = dict(self._questions.rows(sa.select(tests.c.key, tests.c.id)))
        ends = LastResults(self._questions)
        all_after = ends.of_all({series: self._results(keys) for series, keys in self._during.items()}, self._pinned)
        all_before = ends.decided(
            {series: self._results(self._runs_before(series)) for series in self._during}, all_after
        )
        for series, keys in sorted(self._during.items()):
            after, before = all_after[series], all_before[series]
            counts: Counter[str] = Counter()
            for test, end in after.items():
                was = before.get(test)
                kind = self._kind(was, end)
                counts[kind] += 1
                if kind in kinds:
                    # A cause of yesterday keeps its name.
                    of = was if was and kind in ("fixed", "still") else end
                    self._group(kinds[kind], of).tests[series].append(names[test])
                if kind in ("new", "changed", "fixed"):
                    turned.add(test)
            ran |= after.keys()
            decided = Counter(end.state for end in after.values())
            machines.append({
                "host": series.host, "pins": series.pins, "runs": len(keys), "last_run": at(keys[-1] * 10**6),
                "tests": decided[GOOD] + decided[BAD], "unexpected": decided[BAD], "new": counts["new"],
            })  # fmt: skip
            notes += self._notes(series, counts, is_first=not self._runs_before(series))
        # Of flaky tests, those whose outcome changed are news.
        flaky = Trends(self._questions, turned).flaky(())
        if slower is None:
            slower = self._slower(ran)
        globs, flaky_tests = RanTests(names[test] for test in ran), {each["id"] for each in flaky}
        found = {
            name: self._documents(of.values(), globs, flaky_tests, dated=name in ("new", "still"))
            for name, of in kinds.items()
        }
        totals = {name: sum(len(cause["tests"]) for cause in of) for name, of in found.items()}
        return {
            "schema": "mlir-matrix/history-today/v1", "database": database, "since": self._since, "until": self._now,
            "summary": {
                "runs": sum(map(len, self._during.values())), **totals, "new_causes": len(found["new"]),
                "flaky": len(flaky), "slower": len(slower),
            },
            "machines": machines, "flaky": flaky, "slower": slower, "notes": notes,
            "new": found["new"], "changed": found["changed"], "fixed": found["fixed"], "still": found["still"],
            "trouble": found["trouble"],
        }  # fmt: skip

    def _runs_before(self, series: Series) -> Sequence[int]:
        """Return the runs before; for a new machine, those of all other machines with these pins."""
        others = (keys for other, keys in self._before.items() if other.pins == series.pins)
        return self._before.get(series) or sorted(key for keys in others for key in keys)

    def _results(self, keys: Iterable[int]) -> list[int]:
        """Return the runs with the results of runs. One that repeats the results of an earlier run makes these the last ones."""
        last = {self._with_results[key]: key for key in keys}
        return sorted(last, key=lambda run: last[run])

    def _slower(self, ran: Collection[int]) -> list[SlowerTest]:
        """Return those of these tests that are slower, and were not before."""
        slower = Trends(self._questions, ran).slower((), self._start)
        names = {each["id"] for each in slower}
        keys = [row.key for row in self._questions.rows(sa.select(tests.c.key).where(tests.c.id.in_(names)))]
        before = self._of_runs([key for keys in self._before.values() for key in keys])
        known = {(each["id"], each["host"], each["cost"]) for each in Trends(before, keys).slower(())}
        return [each for each in slower if (each["id"], each["host"], each["cost"]) not in known]

    def _kind(self, was: End | None, now: End) -> str:
        """Return what a test adds to the answer; empty for nothing."""
        failed = was is not None and was.state == BAD
        if now.state == UNKNOWN:
            if now.outcome == Outcome.INFRA_ERROR:
                return "trouble"
            return "not run" if failed else ""
        if now.state == GOOD:
            return "fixed" if failed else ""
        if now.cause is not None and self._causes[now.cause].kind == QUARANTINE:
            return QUARANTINE
        if was is None or not failed:
            return "new"
        return "still" if (was.outcome, was.words) == (now.outcome, now.words) else "changed"

    def _group(self, groups: dict[str, _Failing], end: End) -> _Failing:
        """Return the group of a failure. Runs of older programs have no causes: equal behaviours are one group."""
        row = None if end.cause is None else self._causes[end.cause]
        key = row.cause if row else digest_bytes(end.words.encode())[:16]
        return groups.setdefault(key, _Failing(key, end.words, row))

    def _silent(self) -> Iterator[str]:
        """Yield which machines had a run lately, and none since."""
        if not self._before and not self._during:
            yield "the history has no run; each matrix run adds to it"
        lately = self._start - _USUAL * (milliseconds(self._now) - self._start)
        for series, keys in sorted(self._before.items()):
            # Jobs of CI services have a machine each, with one run.
            if series not in self._during and keys[-1] >= lately and len(keys) > 1:
                yield f"{series.words}: no run since {minute(at(keys[-1] * 10**6))}"

    def _notes(self, series: Series, counts: Mapping[str, int], *, is_first: bool) -> Iterator[str]:
        """Yield what makes the answer for a series incomplete or doubtful."""
        if is_first:
            yield f"{series.words}: no run before; each failure counts as new"
        for row in self._questions.rows(sa.select(runs).where(among(runs.c.key, self._during[series]))):
            if row.interrupted:
                yield f"{series.words}: run {row.id[:12]} was interrupted; tests that it did not run keep their last state"
            if milliseconds(row.started) > milliseconds(row.stored) + _CLOCK_MS:
                yield f"{series.words}: run {row.id[:12]} starts at {minute(row.started)}, in the future: a clock is wrong"
        if counts["not run"]:
            yield f"{series.words}: {counted(counts['not run'], 'test')} that failed before did not run"
        if counts[QUARANTINE]:
            yield f"{series.words}: {counted(counts[QUARANTINE], 'test')} in quarantine failed"

    def _documents(
        self, groups: Collection[_Failing], globs: RanTests, flaky: Collection[str], *, dated: bool
    ) -> list[TodayCause]:
        """Return the causes, that of most tests first; with ``dated``, each with the runs between which it came."""
        tests_of = {group.key: sorted({test for each in group.tests.values() for test in each}) for group in groups}
        ordered = sorted(groups, key=lambda group: (-len(tests_of[group.key]), group.key))
        examples: dict[Series, list[str]] = defaultdict(list)
        for group in ordered[:_MOST_CAUSES] if dated else ():
            for series in group.tests:
                examples[series].append(group.example(series))
        dated_tests: dict[tuple[Series, str], FirstBadTest] = {}
        for series, names in examples.items():
            questions = self._of_runs(self._before.get(series, []) + self._during[series])
            found = details(questions, went_bad(questions, names), self._commands)
            dated_tests |= {(series, test["id"]): test for test in found}
        documents: list[TodayCause] = []
        for group in ordered:
            row, failing = group.row, tests_of[group.key]
            places: list[TodayPlace] = [
                {
                    "host": series.host, "pins": series.pins, "tests": len(tests),
                    "first_bad": dated_tests.get((series, group.example(series))),
                }
                for series, tests in group.tests.items()
            ]  # fmt: skip
            # Tests in quarantine have no command and no example.
            proposed = row.next.replace(row.example, group.example()) if row and row.example else ""
            bisections = [place["first_bad"]["bisect"] for place in places if place["first_bad"]]
            documents.append({
                "key": group.key, "title": group.title, "file": group.file,
                "tests": failing, "globs": globs.globs(failing), "example": group.example(),
                "flaky": len(set(failing).intersection(flaky)),
                "next": next(filter(None, bisections), proposed), "places": places,
            })  # fmt: skip
        return documents


def _no_run(every: Questions, chosen: ChosenRuns) -> str:
    """Return why there is no run: what the history has instead."""
    hosts = sorted({row.host for row in every.seen()})
    words = [f"--{name} {printable(value)}" for name, value in vars(chosen).items() if value]
    known = f"; its machines: {', '.join(map(printable, hosts[:10]))}" if hosts else ""
    return f"{' '.join(words)}: the history has no such run{known}"
