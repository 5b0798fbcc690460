"""Decide from few values: is a rate high, did a series rise, does it grow. Plain formulas with normal approximations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import erfc, sqrt
from statistics import median


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
