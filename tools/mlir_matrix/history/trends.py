"""Find tests that are flaky, become slower, or whose errors grow, by plain formulas; and the recent durations of all tests.

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

from mlir_matrix.fleet.durations import RECENT, Recorded, Snapshot, typical_seconds
from mlir_matrix.history.checked import UNKNOWN
from mlir_matrix.history.questions import Questions

if TYPE_CHECKING:
    from mlir_matrix.history.documents import FlakyTest, GrowingTest, SlowerTest

#: Executions at the end of a series, and before them, that are compared.
_LATER, _EARLIER, _LEAST = 5, 20, 5
#: A test is slower by this factor and by these milliseconds.
_FACTOR, _MORE_MS = 1.2, 50
#: Executions whose errors are compared, and the share of its bound by which an error has to grow.
_ERRORS, _LEAST_ERRORS, _GROWTH = 30, 8, 0.05
_CHANCE = 0.01


class Trends:
    """Looks at the executions of tests over runs."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._rows = questions.rows

    def flaky(self, patterns: Sequence[str]) -> list[FlakyTest]:
        """Return the tests that ended in different ways while all that they depend on was equal."""
        of = "FROM results WHERE executed = 1 AND state < 2 AND inputs IS NOT NULL"
        differ = "HAVING min(behaviour) <> max(behaviour)"
        tests = [row.test for row in self._rows(f"SELECT test {of} GROUP BY test {differ}")]
        groups = self._rows(f"SELECT test, inputs {of} AND test IN :tests GROUP BY test, inputs {differ}", tests=tests)
        names = self._questions.among({row.test for row in groups}, patterns)
        contradicted = {(row.test, row.inputs) for row in groups}
        rows = self._rows(f"SELECT test, inputs, behaviour, run {of} AND test IN :tests", tests=list(names))
        seen: dict[int, list[Any]] = defaultdict(list)
        for row in rows:
            if (row.test, row.inputs) in contradicted:
                seen[row.test].append(row)
        behaviours, runs = self._questions.behaviours(), self._questions.named(row.run for row in rows)
        found: list[FlakyTest] = []
        for test, each in seen.items():
            counts = Counter(row.behaviour for row in each)
            # Of each state of the inputs, the behaviour that came most often is the usual one.
            by_inputs: dict[int, Counter[int]] = defaultdict(Counter)
            for row in each:
                by_inputs[row.inputs][row.behaviour] += 1
            others = sum(group.total() - max(group.values()) for group in by_inputs.values())
            low, high = wilson(others, len(each))
            found.append({
                "id": names[test], "executions": len(each), "differing": others, "rate": round(others / len(each), 4),
                "interval": [round(low, 4), round(high, 4)],
                "behaviours": [
                    {"behaviour": behaviours[key][1] or behaviours[key][0], "executions": count}
                            for key, count in counts.most_common(5)
                ],
                "last_run": max(runs[row.run]["ended"] for row in each),
            })  # fmt: skip
        return sorted(found, key=lambda each: (-each["rate"], each["id"]))

    def _series(self, column: str, having: str) -> Iterator[tuple[int, list[int], list[int]]]:
        """Return runs and values of the executions of each test, as integers."""
        joined, source = self._questions.store.joined, self._questions.store.in_order
        statement = (
            f"SELECT test, {joined('run')}, {joined(column)} FROM {source} WHERE executed = 1 AND state < 2 {having}"
        )
        for test, runs, values in self._rows(statement):
            yield test, list(map(int, runs.split(","))), list(map(int, values.split(",")))

    def slower(self, patterns: Sequence[str]) -> list[SlowerTest]:
        """Return the tests whose last executions on a host took longer than those before."""
        hosts = dict(self._rows("SELECT key, host FROM runs WHERE executed > 0"))
        found = []
        # Most tests cannot be slower by so much.
        having = f"GROUP BY test HAVING count(*) >= {_LATER + _LEAST} AND max(ms) >= {_FACTOR} * min(ms) + {_MORE_MS}"
        for test, runs, values in self._series("ms", having):
            by_host: dict[str, list[int]] = defaultdict(list)
            for run, value in zip(runs, values, strict=True):
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
        having = (
            "AND error_used IS NOT NULL GROUP BY test "
            f"HAVING max(error_used) - min(error_used) >= {_GROWTH} AND count(*) >= {_LEAST_ERRORS}"
        )
        # Ten-thousandths of the bound; a larger error is a mismatch anyway.
        used = "CAST(round(CASE WHEN error_used > 10 THEN 10 ELSE error_used END * 10000) AS integer)"
        for test, _, values in self._series(used, having):
            series = [value / 10_000 for value in values[-_ERRORS:]]
            half = len(series) // 2
            # A line that grows by so much has half of it between the means of its halves.
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
        """Return the recent executions of all tests; the last run of a test may have taken its result from the cache."""
        ended = dict(self._rows("SELECT key, ended FROM runs"))
        names = dict(self._rows("SELECT key, id FROM tests"))
        joined = self._questions.store.joined("CASE WHEN executed = 1 THEN CASE state WHEN 0 THEN -ms ELSE ms END END")
        statement = f"""
            SELECT test, {joined}, max(run), max(CASE WHEN state = 0 THEN run ELSE 0 END)
            FROM {self._questions.store.in_order} WHERE state < {UNKNOWN} GROUP BY test HAVING max(executed) = 1
        """
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
    """Return the p-value of Mann and Whitney's rank test: by chance, later values are this much larger than earlier ones."""
    n, m = len(later), len(earlier)
    wins = sum((a > b) + (a == b) / 2 for a in later for b in earlier)
    total = n + m
    variance = n * m / 12 * (total + 1 - _ties([*later, *earlier], 2) / (total * (total - 1)))
    return _above(wins - n * m / 2 - 0.5, variance)


def grows(values: Sequence[float]) -> float:
    """Return the p-value of Mann and Kendall's test: by chance, a series rises as often as this one."""
    n = len(values)
    rises = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    variance = (n * (n - 1) * (2 * n + 5) - _ties(values, 1)) / 18
    return _above(rises - 1, variance)


def slope(values: Sequence[float]) -> float:
    """Return Theil and Sen's slope of a series: the median of the slopes between all pairs."""
    return median((b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2))


def _ties(values: Iterable[float], kind: int) -> int:
    """Return what equal values take from a variance: t³ − t, or t(t − 1)(2t + 5), for each value that comes t times."""
    return sum(t * (t - 1) * (t + 1 if kind == 2 else 2 * t + 5) for t in Counter(values).values())


def _above(distance: float, variance: float) -> float:
    return erfc(distance / sqrt(2 * variance)) / 2 if variance > 0 and distance > 0 else 1.0
