"""Find how tests ended last in some runs, without reading the whole history: the last run decides nearly all tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from mlir_matrix.history.checked import UNKNOWN
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.store import among, tests

#: The most tests whose results to read in all earlier runs at once. For more, the next earlier runs are read first.
_FEW = 1000
S = TypeVar("S")


class End(NamedTuple):
    """The last result of a test in some runs."""

    state: int
    outcome: str
    words: str
    #: The key of its cause.
    cause: int | None


class LastResults:
    """Finds last results by series. The runs of a series are keys of runs with results, the one that counts last at the end."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._words = questions.behaviours()
        self._ends: dict[tuple[int, int, int | None], End] = {}

    def of_all(self, of_runs: Mapping[S, Sequence[int]], pins: Container[int] | None = None) -> dict[S, dict[int, End]]:
        """Return the last result of each test by its key, a decided one first; with ``pins``, of those with these releases."""
        rows = self._rows({run for series in of_runs.values() for run in series})
        return {series: self._last(of_series, rows, pins) for series, of_series in of_runs.items()}

    def decided(
        self, of_runs: Mapping[S, Sequence[int]], of_tests: Mapping[S, Iterable[int]]
    ) -> dict[S, dict[int, End]]:
        """Return the last decided result of each of these tests, by its key, if it has one."""
        found: dict[S, dict[int, End]] = {series: {} for series in of_runs}
        missing = {series: set(of_tests[series]) for series in of_runs}
        earlier = {series: list(of_series) for series, of_series in of_runs.items()}
        count = 1
        while True:
            latest = {series: of_series[-count:] for series, of_series in earlier.items() if missing[series]}
            rows = self._rows({run for of_series in latest.values() for run in of_series})
            for series, of_series in latest.items():
                del earlier[series][-count:]
                self._keep(found[series], missing[series], self._last(of_series, rows))
                if len(missing[series]) <= _FEW:
                    rest = self._rows(set(earlier[series]), missing[series])
                    self._keep(found[series], missing[series], self._last(earlier[series], rest))
                    missing[series].clear()
            if not any(latest.values()):
                return found
            count *= 2

    def _keep(self, found: dict[int, End], missing: set[int], last: Mapping[int, End]) -> None:
        """Keep the decided results of missing tests, which are earlier than those that are found."""
        for test in missing.intersection(last):
            if last[test].state != UNKNOWN:
                found[test] = last[test]
        missing.difference_update(found)

    def _rows(self, of_runs: Collection[int], of_tests: Collection[int] | None = None) -> dict[int, list[Any]]:
        """Return the results of runs; with ``of_tests``, only of these tests."""
        if not of_runs or (of_tests is not None and not of_tests):
            return {}
        of = self._questions.results.c
        is_test = of.test.in_(sa.select(tests.c.key)) if of_tests is None else among(of.test, of_tests)
        # The results of a test are stored together, so that it is faster to go by tests than by runs. A sum has no index.
        in_runs = (of.run >= min(of_runs)) & among(of.run + 0, of_runs)
        statement = sa.select(of.run, of.test, of.state, of.behaviour, of.cause, of.pins).where(is_test, in_runs)
        found: dict[int, list[Any]] = defaultdict(list)
        for row in self._questions.tuples(statement):
            found[row[0]].append(row)
        return found

    def _last(
        self, of_runs: Iterable[int], rows: Mapping[int, Sequence[Any]], pins: Container[int] | None = None
    ) -> dict[int, End]:
        """Return the last result of each test, a decided one first."""
        last: dict[int, Any] = {}
        for run in of_runs:
            for row in rows.get(run, ()):
                _, test, state, _, _, used = row
                if pins is not None and used not in pins:
                    continue
                kept = last.get(test)
                # Of several results in a run, a bad one counts.
                if kept is None or kept[2] == UNKNOWN or (state != UNKNOWN and (kept[0] != run or state < kept[2])):
                    last[test] = row
        return {test: self._end(*row[2:5]) for test, row in last.items()}

    def _end(self, state: int, behaviour: int, cause: int | None) -> End:
        """Return an end; equal ones are one object."""
        found = self._ends.get((state, behaviour, cause))
        if found is None:
            outcome, words = self._words[behaviour]
            found = self._ends[state, behaviour, cause] = End(state, outcome, words or outcome, cause)
        return found
