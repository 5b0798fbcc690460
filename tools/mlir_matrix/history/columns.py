"""Read the runs and the results of a history for the pages of a site."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mlir_matrix.history.questions import Questions
from mlir_matrix.history.store import Store, among, behaviours, costs, results, runs, sets, tests
from mlir_matrix.history.today import Series

if TYPE_CHECKING:
    from mlir_matrix.history.documents import RecordedRun


class Columns:
    """Queries a database for a site."""

    def __init__(self, store: Store, connection: sa.Connection) -> None:
        self._connection = connection
        self._questions = Questions(store, connection)
        rows = self._questions.rows
        #: Rows of the names that results have, by key.
        self.tests: dict[int, str] = dict(rows(sa.select(tests.c.key, tests.c.id)))
        of = behaviours.c
        named = sa.select(of.key, of.outcome, of.stage, of.text)
        self.behaviours: dict[int, tuple[str, str, str]] = {key: (*texts,) for key, *texts in rows(named)}
        self.pins: dict[int, str] = dict(rows(sa.select(sets.c.key, sets.c.pins)))
        self.costs: dict[int, str] = dict(rows(sa.select(costs.c.key, costs.c.exact)))

    def runs(self) -> dict[int, tuple[Series, RecordedRun]]:
        """Return the runs that have results, by key, the oldest first. Runs whose results were removed have none."""
        has_results = sa.exists().where(results.c.run == runs.c.key)
        rows = self._questions.rows(sa.select(runs.c.key).where(has_results).order_by(runs.c.key))
        named = self._questions.named(row.key for row in rows)
        return {row.key: (Series.of(named[row.key]["host"], named[row.key]["command"]), named[row.key]) for row in rows}

    def results(self, of_tests: Collection[int], of_runs: Collection[int] | None = None) -> Iterator[Sequence[Any]]:
        """Yield results of tests, those of a test in the order of runs; with ``of_runs``, only of these.

        Of each: the keys of the test, the run and the behaviour, the state, whether it was executed, milliseconds, the share of its
        bound that the error takes, and the keys of its releases and its exact costs.
        """
        of = results.c
        columns = (of.test, of.run, of.behaviour, of.state, of.executed, of.ms, of.error_used, of.pins, of.costs)
        statement = sa.select(*columns).where(among(of.test, of_tests)).order_by(of.test, of.run, of.nr)
        if of_runs is not None:
            statement = statement.where(among(of.run, of_runs))
        yield from self._connection.execute(statement)

    def tests_of(self, of_runs: Collection[int]) -> list[int]:
        """Return the keys of the tests of runs."""
        statement = sa.select(results.c.test).where(among(results.c.run, of_runs)).distinct()
        return [row.test for row in self._questions.rows(statement)]
