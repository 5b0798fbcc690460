"""Find tests that are flaky, become slower, or whose errors grow, and return the recent durations of all tests.

The statistics are stated in docs/history.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import erfc, sqrt
from statistics import fmean as mean
from statistics import median
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mlir_matrix.fleet.durations import RECENT, Recorded, Snapshot, typical_seconds
from mlir_matrix.history.checked import BAD, UNKNOWN
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.store import among, runs, tests

if TYPE_CHECKING:
    from mlir_matrix.history.documents import FlakyTest, GrowingTest, SlowerTest

#: How many executions at the end of a series to compare with how many before them; and the fewest of the latter.
_LATER, _EARLIER, _LEAST = 5, 20, 5
#: A test counts as slower if it is slower by this factor and by these milliseconds.
_FACTOR, _MORE_MS = 1.2, 50
#: The most and the fewest executions whose errors to compare, and the least growth of an error, as a share of its bound.
_ERRORS, _LEAST_ERRORS, _GROWTH = 30, 8, 0.05
_CHANCE = 0.01


def _joined(column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return the integers of a group, separated by commas."""
    return sa.func.aggregate_strings(sa.cast(column, sa.String), ",")


class Trends:
    """Analyses the executions of tests over runs."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._rows = questions.rows
        self._in_order = questions.in_order.c

    def flaky(self, patterns: Sequence[str]) -> list[FlakyTest]:
        """Return the tests that ended in different ways although all their inputs were equal."""
        of = self._questions.results.c
        executions = sa.select(of.test).where(of.executed == 1, of.state < UNKNOWN, of.inputs.is_not(None))
        differ = sa.func.min(of.behaviour) != sa.func.max(of.behaviour)
        keys = [row.test for row in self._rows(executions.group_by(of.test).having(differ))]
        by_inputs = executions.add_columns(of.inputs).group_by(of.test, of.inputs)
        groups = self._rows(by_inputs.where(among(of.test, keys)).having(differ))
        names = self._questions.among({row.test for row in groups}, patterns)
        contradicted = {(row.test, row.inputs) for row in groups}
        columns = (of.inputs, of.behaviour, of.run)
        rows = self._rows(executions.add_columns(*columns).where(among(of.test, names)))
        seen: dict[int, list[Any]] = defaultdict(list)
        for row in rows:
            if (row.test, row.inputs) in contradicted:
                seen[row.test].append(row)
        words, recorded = self._questions.behaviours(), self._questions.named(row.run for row in rows)
        found: list[FlakyTest] = []
        for test, each in seen.items():
            counts = Counter(row.behaviour for row in each)
            # For each state of the inputs, the most frequent behaviour is the usual one.
            of_inputs: dict[int, Counter[int]] = defaultdict(Counter)
            for row in each:
                of_inputs[row.inputs][row.behaviour] += 1
            others = sum(group.total() - max(group.values()) for group in of_inputs.values())
            low, high = wilson(others, len(each))
            found.append({
                "id": names[test], "executions": len(each), "differing": others, "rate": round(others / len(each), 4),
                "interval": [round(low, 4), round(high, 4)],
                "behaviours": [
                    {"behaviour": words[key][1] or words[key][0], "executions": count}
                            for key, count in counts.most_common(5)
                ],
                "last_run": max(recorded[row.run]["ended"] for row in each),
            })  # fmt: skip
        return sorted(found, key=lambda each: (-each["rate"], each["id"]))

    def _series(
        self, column: sa.ColumnElement[Any], *having: sa.ColumnElement[bool]
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        """Return runs and values of the executions of each test, as integers."""
        result = self._in_order
        joined = sa.select(result.test, _joined(result.run), _joined(column))
        executed = joined.where(result.executed == 1, result.state < UNKNOWN)
        for test, at, values in self._rows(executed.group_by(result.test).having(sa.and_(*having))):
            yield test, list(map(int, at.split(","))), list(map(int, values.split(",")))

    def slower(self, patterns: Sequence[str]) -> list[SlowerTest]:
        """Return the tests whose last executions on a host took longer than those before."""
        hosts = dict(self._rows(sa.select(runs.c.key, runs.c.host).where(runs.c.executed > 0)))
        found = []
        ms = self._in_order.ms
        # A cheap filter: the times of most tests do not differ this much.
        may_be_slower = sa.func.max(ms) >= _FACTOR * sa.func.min(ms) + _MORE_MS
        for test, at, values in self._series(ms, sa.func.count() >= _LATER + _LEAST, may_be_slower):
            by_host: dict[str, list[int]] = defaultdict(list)
            for run, value in zip(at, values, strict=True):
                by_host[hosts[run]].append(value)
            for host, series in by_host.items():
                later, earlier = series[-_LATER:], series[-_LATER - _EARLIER : -_LATER]
                if len(earlier) < _LEAST:
                    continue
                before, after = median(earlier), median(later)
                if after >= _FACTOR * before + _MORE_MS and (chance := is_larger(later, earlier)) < _CHANCE:
                    found.append((after / max(before, 1), test, host, before, after, chance))
        names = self._questions.among([each[1] for each in found], patterns)
        return [
            {
                "id": names[test], "host": host, "before": before / 1000, "after": after / 1000, "factor": round(factor, 3),
                "chance": float(f"{chance:.2g}"),
            }
            for factor, test, host, before, after, chance in sorted(found, reverse=True) if test in names
        ]  # fmt: skip

    def growing(self, patterns: Sequence[str]) -> list[GrowingTest]:
        """Return the tests whose error uses more and more of its bound."""
        found = []
        error = self._in_order.error_used
        # In ten-thousandths of the bound, at most 10 bounds: such an error is a mismatch anyway.
        used = sa.cast(sa.func.round(sa.case((error > 10, 10), else_=error) * 10_000), sa.Integer)
        may_grow = sa.func.max(error) - sa.func.min(error) >= _GROWTH
        for test, _, values in self._series(used, may_grow, sa.func.count(error) >= _LEAST_ERRORS):
            series = [value / 10_000 for value in values[-_ERRORS:]]
            half = len(series) // 2
            # If a line grows by _GROWTH, the means of its halves differ by half of that.
            if mean(series[-half:]) - mean(series[:half]) >= _GROWTH / 2 and (chance := grows(series)) < _CHANCE:
                found.append((slope(series), test, series, chance))
        names = self._questions.among([each[1] for each in found], patterns)
        return [
            {
                "id": names[test], "executions": len(series), "first": series[0], "last": series[-1], "per_run": round(rise, 5),
                "runs_left": max(0, round((1 - series[-1]) / rise) if rise > 0 else 0), "chance": float(f"{chance:.2g}"),
            }
            for rise, test, series, chance in sorted(found, reverse=True) if test in names
        ]  # fmt: skip

    def snapshot(self, taken: str) -> Snapshot:
        """Return the recent executions of all tests. The last run of a test may have a result from the cache."""
        ended = dict(self._rows(sa.select(runs.c.key, runs.c.ended)))
        names = dict(self._rows(sa.select(tests.c.key, tests.c.id)))
        result = self._in_order
        is_bad = result.state == BAD
        executed = sa.case((result.executed == 1, sa.case((is_bad, -result.ms), else_=result.ms)))
        last_bad = sa.func.max(sa.case((is_bad, result.run), else_=0))
        columns = (result.test, _joined(executed), sa.func.max(result.run), last_bad)
        decided = sa.select(*columns).where(result.state < UNKNOWN).group_by(result.test)
        statement = decided.having(sa.func.max(result.executed) == 1)
        found = {}
        for test, times, last, bad in self._rows(statement):
            seconds = typical_seconds([*map(int, times.rsplit(",", RECENT)[-RECENT:])]) / 1000
            found[names[test]] = Recorded(seconds, ended[last], ended[bad] if bad else "")
        return Snapshot(found, taken)


def wilson(found: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the rate of ``found`` in ``of`` trials."""
    rate = found / of
    middle, width = rate + z * z / (2 * of), z * sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    return max(0.0, (middle - width) / (1 + z * z / of)), min(1.0, (middle + width) / (1 + z * z / of))


def is_larger(later: Sequence[float], earlier: Sequence[float]) -> float:
    """Return the p-value of Mann and Whitney's rank test for later values that are larger than earlier ones."""
    n, m = len(later), len(earlier)
    wins = sum((a > b) + (a == b) / 2 for a in later for b in earlier)
    total = n + m
    variance = n * m / 12 * (total + 1 - _ties([*later, *earlier], 2) / (total * (total - 1)))
    return _above(wins - n * m / 2 - 0.5, variance)


def grows(values: Sequence[float]) -> float:
    """Return the p-value of Mann and Kendall's test for a series that rises."""
    n = len(values)
    rises = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    variance = (n * (n - 1) * (2 * n + 5) - _ties(values, 1)) / 18
    return _above(rises - 1, variance)


def slope(values: Sequence[float]) -> float:
    """Return Theil and Sen's slope of a series: the median of the slopes between all pairs."""
    return median((b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2))


def _ties(values: Iterable[float], kind: int) -> int:
    """Return the correction of a variance for ties: t³ − t, or t(t − 1)(2t + 5), for each value that occurs t times."""
    return sum(t * (t - 1) * (t + 1 if kind == 2 else 2 * t + 5) for t in Counter(values).values())


def _above(distance: float, variance: float) -> float:
    return erfc(distance / sqrt(2 * variance)) / 2 if variance > 0 and distance > 0 else 1.0
