"""Judge rates and series: the interval of a rate, by how much later values are larger, and how much a series rises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import erfc, sqrt
from statistics import NormalDist, median


def wilson(found: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the rate of ``found`` in ``of`` trials; of no trial, all rates."""
    if of == 0:
        return 0.0, 1.0
    rate = found / of
    middle, width = rate + z * z / (2 * of), z * sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    return max(0.0, (middle - width) / (1 + z * z / of)), min(1.0, (middle + width) / (1 + z * z / of))


def ratio_interval(later: Sequence[float], earlier: Sequence[float], error: float) -> tuple[float, float, float]:
    """Return by how much later values are larger than earlier ones: Hodges and Lehmann's ratio, and the interval of ranks.

    The values are positive. ``error``: the chance of a ratio below the interval, or above. It needs no normal distribution: the
    interval has the ratios that the test of Mann and Whitney would not reject.
    """
    n, m = len(later), len(earlier)
    ratios = sorted(a / b for a in later for b in earlier)
    reach = NormalDist().inv_cdf(1 - error) * sqrt(n * m * (n + m + 1) / 12)
    outside = max(int(n * m / 2 - reach), 0)
    return median(ratios), ratios[outside], ratios[-1 - outside]


def grows(values: Sequence[float]) -> float:
    """Return the p-value of Mann and Kendall's test for a series that rises."""
    n = len(values)
    rises = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    ties = sum(count * (count - 1) * (2 * count + 5) for count in Counter(values).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    return erfc((rises - 1) / sqrt(2 * variance)) / 2 if variance > 0 and rises > 1 else 1.0


def slope(values: Sequence[float]) -> float:
    """Return Theil and Sen's slope of a series: the median of the slopes between all pairs."""
    return median((b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2))
