"""The Gumbel distribution, which maxima of many like numbers approach: fitted to a few, asked about one in a million.

The largest error of a test run is the maximum over the elements of an output. Errors of sums have tails like the normal
distribution's or lighter, for which the limit of maxima is Gumbel's (E. J. Gumbel, Statistics of Extremes, 1958); lighter
tails are overestimated by it, so that bounds err on the wide side. Location and scale are those of maximum likelihood.

How uncertain a quantile is follows from the size of the sample alone, since (quantile - estimate) / scale is distributed
alike for every Gumbel distribution (J. F. Lawless, Statistical Models and Methods for Lifetime Data, 2003). That distribution
is simulated, with numbers that are the same in every process. Pure; the standard library is enough.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

#: How sure an upper limit is.
CONFIDENCE = 0.95
_SIMULATED = 2000


@dataclass(frozen=True, slots=True)
class Gumbel:
    """A Gumbel distribution of maxima, fitted to ``size`` of them."""

    location: float
    scale: float
    size: int

    def tail(self, value: float) -> float:
        """How probable it is that a maximum exceeds ``value``."""
        reduced = (value - self.location) / self.scale
        return 1.0 if reduced < -10 else -math.expm1(-math.exp(-reduced))

    def quantile(self, rate: float) -> float:
        """What a maximum exceeds with this probability."""
        return self.location + self.scale * _reduced(rate)

    def upper(self, rate: float) -> float:
        """An upper limit of that quantile, with :data:`CONFIDENCE`."""
        return self.quantile(rate) + self.scale * _allowance(self.size, rate)

    def reach(self, sample: Sequence[float]) -> float:
        """So many scales the largest number of the sample is above the location: one that stands apart hardly moves these."""
        return (max(sample) - self.location) / self.scale

    def gap(self, sample: Sequence[float]) -> float:
        """The largest distance between the distribution and that of the sample (Kolmogorov and Smirnov's)."""
        below = [1 - self.tail(value) for value in sorted(sample)]
        size = len(below)
        return max(max(share - at / size, (at + 1) / size - share) for at, share in enumerate(below))


def usual_gap(size: int) -> float:
    """The gap that 99 of 100 samples of this size, drawn from a Gumbel distribution, stay below: more, and it is another one."""
    _, gaps, _ = _simulated(size)
    return gaps[math.ceil(0.99 * _SIMULATED) - 1]


def usual_reach(size: int) -> float:
    """So many scales above the location the largest number stays in 99 of 100 such samples."""
    fits, _, reaches = _simulated(size)
    return reaches[math.ceil(0.99 * len(fits)) - 1]


def _reduced(rate: float) -> float:
    """The quantile of the distribution with location 0 and scale 1."""
    return -math.log(-math.log1p(-rate))


@lru_cache
def _simulated(size: int) -> tuple[list[Gumbel], list[float], list[float]]:
    """What is fitted to samples of location 0 and scale 1; the gaps between fits and samples, and their reaches, in order."""
    numbers = random.Random(size)
    samples = [[-math.log(numbers.expovariate(1)) for _ in range(size)] for _ in range(_SIMULATED)]
    fits = [fit(sample) for sample in samples]
    pairs = list(zip(fits, samples, strict=True))
    gaps, reaches = (found.gap(sample) for found, sample in pairs), (found.reach(sample) for found, sample in pairs)
    return fits, sorted(gaps), sorted(reaches)


@lru_cache
def _allowance(size: int, rate: float) -> float:
    """So many estimated scales a quantile that is estimated from a sample may be too low."""
    fits, _, _ = _simulated(size)
    short = sorted((_reduced(rate) - found.quantile(rate)) / found.scale for found in fits)
    return short[math.ceil(CONFIDENCE * _SIMULATED) - 1]


def fit(sample: Sequence[float]) -> Gumbel:
    """The distribution under which the sample is most likely. Raises ValueError for fewer than three or equal numbers."""
    least, size = min(sample), len(sample)
    shifted = [value - least for value in sample]
    mean = math.fsum(shifted) / size
    if size < 3 or not 0 < mean < math.inf:
        raise ValueError("three finite numbers are needed, and not all the same")
    low, high, scale = 0.0, mean, mean / 2
    for _ in range(200):
        # What must be 0 rises with the scale, from below 0 to above it between low and high.
        weights = [math.exp(-value / scale) for value in shifted]
        total = math.fsum(weights)
        weighted = math.fsum(map(_product, shifted, weights)) / total
        value = scale - mean + weighted
        low, high = (scale, high) if value < 0 else (low, scale)
        spread = (
            math.fsum(weight * (each - weighted) ** 2 for each, weight in zip(shifted, weights, strict=True)) / total
        )
        step = scale - value / (1 + spread / scale**2)
        following = step if low < step < high else (low + high) / 2
        if abs(following - scale) <= 1e-12 * scale:
            break
        scale = following
    total = math.fsum(math.exp(-value / scale) for value in shifted)
    return Gumbel(least - scale * math.log(total / size), scale, size)


def _product(left: float, right: float) -> float:
    return left * right
