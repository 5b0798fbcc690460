"""Find tests that are flaky, become slower, or whose errors grow, and return the recent durations of all tests.

The statistics are stated in docs/history.md.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import fmean as mean
from statistics import median, median_high
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from mlir_matrix.fleet.durations import RECENT, Recorded, Snapshot, typical_seconds
from mlir_matrix.history.checked import BAD, UNKNOWN
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.store import among, costs, runs, tests
from mlir_matrix.statistics.decision import FLOOR
from mlir_matrix.statistics.series import grows, ratio_interval, slope, wilson

if TYPE_CHECKING:
    from mlir_matrix.history.documents import FlakyTest, GrowingTest, SlowerTest

#: How many executions at the end of a series to compare with how many before them; and the fewest of the latter.
LATER, EARLIER, LEAST = 5, 20, 5
#: A duration counts as longer if the whole interval of its ratio is beyond this share. Shorter ones count as so many milliseconds,
#: because starting an action takes as long.
_FLOOR, _LEAST_MS = 0.1, 20
#: The most and the fewest executions whose errors to compare, and the least growth of an error, as a share of its bound.
_ERRORS, _LEAST_ERRORS, _GROWTH = 30, 8, 0.05
_CHANCE = 0.01
#: The ratio and its interval, test, host, cost, and the cost before and after.
_Slower = tuple[tuple[float, float, float], int, str, Literal["instructions", "seconds"], float, float]


def floored(ms: Iterable[int]) -> list[int]:
    """Return milliseconds as they count in comparisons."""
    return [max(value, _LEAST_MS) for value in ms]


def ratio_of_times(later: Sequence[int], earlier: Sequence[int]) -> tuple[float, float, float]:
    """Return by how much executions took longer than those before, and the interval of the ratio."""
    return ratio_interval(later, earlier, _CHANCE)


def is_other(ratio: float) -> bool:
    """Return whether a ratio of times, or an end of its interval, counts. Load disturbs whole runs, so the floor is high."""
    return not 1 / (1 + _FLOOR) <= ratio <= 1 + _FLOOR


def error_grows(errors: Sequence[float]) -> tuple[int, float, float, float] | None:
    """Return when the last errors of a test began to be larger, or None if they do not grow.

    Errors are shares of the bound. The result: the index of the first error of the later half, the p-value, and the means of both
    halves.
    """
    series = errors[-_ERRORS:]
    if len(series) < _LEAST_ERRORS:
        return None
    half = len(series) // 2
    before, after = mean(series[:half]), mean(series[-half:])
    # If a line grows by _GROWTH, the means of its halves differ by half of that.
    if after - before < _GROWTH / 2:
        return None
    chance = grows(series)
    return (len(errors) - half, chance, before, after) if chance < _CHANCE else None


def _joined(column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """Return the integers of a group, separated by commas."""
    return sa.func.aggregate_strings(sa.cast(column, sa.String), ",")


class Trends:
    """Analyses the executions of tests over runs."""

    def __init__(self, questions: Questions, of_tests: Collection[int] | None = None) -> None:
        """Analyse the results that the questions are about; with ``of_tests``, only of the tests with these keys."""
        self._questions = questions
        self._rows = questions.rows
        self._in_order = questions.in_order.c
        self._of_tests = of_tests
        self._executed = sa.and_(self._in_order.executed == 1, self._in_order.state < UNKNOWN)

    def _is_asked(self, test: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
        return sa.true() if self._of_tests is None else among(test, self._of_tests)

    def flaky(self, patterns: Sequence[str]) -> list[FlakyTest]:
        """Return the tests that ended in different ways although all their inputs were equal."""
        of = self._questions.results.c
        executions = sa.select(of.test).where(of.executed == 1, of.state < UNKNOWN, of.inputs.is_not(None))
        executions = executions.where(self._is_asked(of.test))
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
        self, column: sa.ColumnElement[Any], where: sa.ColumnElement[bool], *having: sa.ColumnElement[bool]
    ) -> Iterator[tuple[int, list[str], list[str]]]:
        """Yield runs and values of each test, digits, in the order of runs."""
        result = self._in_order
        joined = sa.select(result.test, _joined(result.run), _joined(column))
        joined = joined.where(where, self._is_asked(result.test))
        for test, at, values in self._rows(joined.group_by(result.test).having(sa.and_(sa.true(), *having))):
            yield test, at.split(","), values.split(",")

    def _by_host(
        self, column: sa.ColumnElement[Any], where: sa.ColumnElement[bool], *having: sa.ColumnElement[bool]
    ) -> Iterator[tuple[int, str, int, list[str]]]:
        """Yield the last run and the values, digits, of each test on each host."""
        hosts = {str(key): host for key, host in self._rows(sa.select(runs.c.key, runs.c.host))}
        for test, at, values in self._series(column, where, *having):
            of_hosts = {hosts[run] for run in at}
            if len(of_hosts) == 1:
                yield test, of_hosts.pop(), int(at[-1]), values
                continue
            by_host: dict[str, list[str]] = defaultdict(list)
            last: dict[str, str] = {}
            for run, value in zip(at, values, strict=True):
                host = hosts[run]
                by_host[host].append(value)
                last[host] = run
            for host, series in by_host.items():
                yield test, host, int(last[host]), series

    def slower(self, patterns: Sequence[str], since: int = 0) -> list[SlowerTest]:
        """Return the tests whose last runs on a host took more instructions or more time than those before.

        ``since``: the key of a run; what was last executed before it is left out.
        """
        found = [*self._more_instructions(), *self._longer(since)]
        names = self._questions.among([each[1] for each in found], patterns)
        return [
            {
                "id": names[test], "host": host, "cost": cost, "before": before, "after": after, "factor": round(factor, 3),
                "interval": [round(low, 3), round(high, 3)],
            }
            for (factor, low, high), test, host, cost, before, after in sorted(found, reverse=True) if test in names
        ]  # fmt: skip

    def _more_instructions(self) -> Iterator[_Slower]:
        """Yield the tests that execute more instructions than before the last runs. A count is exact, so one is enough."""
        keys = self._in_order.costs
        counted = {
            key: json.loads(text).get("instructions") for key, text in self._rows(sa.select(costs.c.key, costs.c.exact))
        }
        of_tests = sa.select(self._in_order.test).where(keys.is_not(None), self._is_asked(self._in_order.test))
        differ = of_tests.group_by(self._in_order.test).having(sa.func.min(keys) != sa.func.max(keys))
        differing = among(self._in_order.test, [row.test for row in self._rows(differ)])
        for test, host, _, series in self._by_host(keys, keys.is_not(None) & differing):
            last = [counted[int(key)] for key in series[-LATER - 1 :]]
            counts = [count for count in last if count is not None]
            if counts and counts[-1] > (1 + FLOOR) * counts[0]:
                factor = counts[-1] / max(counts[0], 1)
                yield (factor, factor, factor), test, host, "instructions", counts[0], counts[-1]

    def _longer(self, since: int) -> Iterator[_Slower]:
        """Yield the tests that took longer in the last executions."""
        ms = self._in_order.ms
        # A cheap filter: the times of most tests do not differ this much.
        may_be_slower = sa.and_(sa.func.max(ms) > _LEAST_MS, sa.func.max(ms) > (1 + _FLOOR) * sa.func.min(ms))
        enough = sa.func.count() >= LATER + LEAST
        for test, host, last, series in self._by_host(ms, self._executed, enough, may_be_slower):
            if last < since or len(series) < LATER + LEAST:
                continue
            values = floored(map(int, series[-LATER - EARLIER :]))
            later, earlier = values[-LATER:], values[:-LATER]
            # The interval allows fewer small ratios than those of the lower half of the later to the upper half of the earlier.
            if not is_other(median(later) / median_high(earlier)):
                continue
            ratio = ratio_of_times(later, earlier)
            if ratio[1] > 1 + _FLOOR:
                yield ratio, test, host, "seconds", median(earlier) / 1000, median(later) / 1000

    def growing(self, patterns: Sequence[str]) -> list[GrowingTest]:
        """Return the tests whose error uses more and more of its bound."""
        found = []
        error = self._in_order.error_used
        # In ten-thousandths of the bound, at most 10 bounds: such an error is a mismatch anyway.
        used = sa.cast(sa.func.round(sa.case((error > 10, 10), else_=error) * 10_000), sa.Integer)
        may_grow = sa.func.max(error) - sa.func.min(error) >= _GROWTH
        for test, _, values in self._series(used, self._executed, may_grow, sa.func.count(error) >= _LEAST_ERRORS):
            series = [int(value) / 10_000 for value in values[-_ERRORS:]]
            grown = error_grows(series)
            if grown:
                found.append((slope(series), test, series, grown[1]))
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
