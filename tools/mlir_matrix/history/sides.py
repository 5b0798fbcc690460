"""Read what the history has of failing tests in their first bad run, and in their last good run before."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlalchemy as sa

from mlir_matrix.history.checked import BAD, GOOD
from mlir_matrix.history.store import among, behaviours, ir, results, runs, tests

Role: TypeAlias = Literal["bad", "good"]


class Failing(NamedTuple):
    """A test that is not as expected on a machine, and the identifiers of two runs there."""

    test: str
    #: The index of machine and pins in the manifest of a site.
    series: int
    #: The first bad run, and the last good run before; None if there is none.
    bad: str
    good: str | None
    #: How it ends.
    behaviour: str


class HistorySide(NamedTuple):
    """The result of a failing test in one of these runs."""

    role: Role
    series: int
    #: The identifier of the run.
    run: str
    started: str
    host: str
    outcome: str
    #: Names of steps, and the SHA-256 of the IR after each; none in runs of older programs.
    levels: Sequence[tuple[str, str]]


def sides_of(connection: sa.Connection, failing: Collection[Failing], most: int) -> dict[str, list[HistorySide]]:
    """Return the sides of failing tests by test, the bad before the good of each machine.

    Of more tests than ``most``, return one of each behaviour, then the second of each, and so on.
    """
    chosen = _chosen(failing, most)
    keys_of_tests = _keys(connection, tests, {each.test for each in chosen})
    keys_of_runs = _keys(connection, runs, {name for each in chosen for name in (each.bad, each.good) if name})
    rows: dict[tuple[str, str, int], Any] = {}
    statement = (
        sa.select(
            tests.c.id, runs.c.id.label("run"), results.c.state, runs.c.started, runs.c.host, behaviours.c.outcome,
            ir.c.levels,
        )
        .join_from(results, tests, tests.c.key == results.c.test)
        .join(runs, runs.c.key == results.c.run)
        .join(behaviours, behaviours.c.key == results.c.behaviour)
        .outerjoin(ir, ir.c.key == results.c.ir)
        .where(among(results.c.run, keys_of_runs), among(results.c.test, keys_of_tests))
        .order_by(results.c.nr)
    )  # fmt: skip
    for row in connection.execute(statement):
        rows.setdefault((row.id, row.run, row.state), row)
    found: dict[str, list[HistorySide]] = defaultdict(list)
    for each in chosen:
        wanted: tuple[tuple[Role, str | None, int], ...] = (("bad", each.bad, BAD), ("good", each.good, GOOD))
        for role, run, state in wanted:
            result = None if run is None else rows.get((each.test, run, state))
            # Results of old runs are removed.
            if result is not None:
                levels = [(name, digest) for name, digest in json.loads(result.levels or "[]")]
                side = HistorySide(role, each.series, result.run, result.started, result.host, result.outcome, levels)
                found[each.test].append(side)
    return dict(found)


def _chosen(failing: Collection[Failing], most: int) -> list[Failing]:
    """Return the entries of at most so many tests, of each behaviour one first."""
    seen: Counter[str] = Counter()
    ranks: dict[str, int] = {}
    for each in sorted(failing):
        if each.test not in ranks:
            ranks[each.test] = seen[each.behaviour]
            seen[each.behaviour] += 1
    tests_first = set(sorted(ranks, key=lambda test: (ranks[test], test))[:most])
    return [each for each in sorted(failing) if each.test in tests_first]


def _keys(connection: sa.Connection, table: sa.TableClause, names: Collection[str]) -> list[int]:
    """Return the keys of runs or tests."""
    return list(connection.scalars(sa.select(table.c.key).where(table.c.id.in_(names))))
