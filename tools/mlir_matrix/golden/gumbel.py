"""Calibrate tolerances: from the errors of many runs to the factor that a layer's bounds need.

An observation is the share of its bound that the worst element of an output took in one run. Multiplying ``atol`` and ``rtol`` by
the same factor divides all shares by it, so shares are sufficient. Runs of one test differ only in their inputs, so they have one
distribution. Each test has a different distribution, and a layer must hold for the worst of its tests. Tests whose shares are
equal in every draw ran the same arithmetic, so they are one sample.

The largest error of a run is the maximum over the elements of an output. The tails of errors of sums are like those of the normal
distribution, or lighter. The limit distribution of such maxima is Gumbel's (E. J. Gumbel, Statistics of Extremes, 1958). It
overestimates lighter tails, so bounds become too wide rather than too narrow. Location and scale are the maximum likelihood
estimates.

The uncertainty of a quantile depends only on the size of the sample, because (quantile - estimate) / scale has the same
distribution for every Gumbel distribution (J. F. Lawless, Statistical Models and Methods for Lifetime Data, 2003). This module
simulates that distribution with the same random numbers in every process. It is pure, and needs only the standard library.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

#: The confidence of an upper limit.
CONFIDENCE = 0.95
_SIMULATED = 2000
#: The fewest different numbers of a sample. Fewer say nothing about one run in a million.
LEAST = 8


@dataclass(frozen=True, slots=True)
class Gumbel:
    """A Gumbel distribution of maxima, fitted to ``size`` of them."""

    location: float
    scale: float
    size: int

    def tail(self, value: float) -> float:
        """Return the probability that a maximum exceeds ``value``."""
        reduced = (value - self.location) / self.scale
        return 1.0 if reduced < -10 else -math.expm1(-math.exp(-reduced))

    def quantile(self, rate: float) -> float:
        """Return the value that a maximum exceeds with this probability."""
        return self.location + self.scale * _reduced(rate)

    def upper(self, rate: float) -> float:
        """Return an upper limit of that quantile, with :data:`CONFIDENCE`."""
        return self.quantile(rate) + self.scale * _allowance(self.size, rate)

    def reach(self, sample: Sequence[float]) -> float:
        """Return how many scales above the location the largest number of the sample is."""
        return (max(sample) - self.location) / self.scale

    def gap(self, sample: Sequence[float]) -> float:
        """Return the largest distance from the distribution of the sample (Kolmogorov and Smirnov's)."""
        below = [1 - self.tail(value) for value in sorted(sample)]
        size = len(below)
        return max(max(share - at / size, (at + 1) / size - share) for at, share in enumerate(below))


def usual_gap(size: int) -> float:
    """Return the gap that 99 of 100 samples of this size from a Gumbel distribution do not exceed."""
    _, gaps, _ = _simulated(size)
    return gaps[math.ceil(0.99 * _SIMULATED) - 1]


def usual_reach(size: int) -> float:
    """Return the reach that 99 of 100 such samples do not exceed."""
    fits, _, reaches = _simulated(size)
    return reaches[math.ceil(0.99 * len(fits)) - 1]


def _reduced(rate: float) -> float:
    """Return the quantile of the distribution with location 0 and scale 1."""
    return -math.log(-math.log1p(-rate))


@lru_cache
def _simulated(size: int) -> tuple[list[Gumbel], list[float], list[float]]:
    """Return fits to samples of location 0 and scale 1, and the sorted gaps and reaches."""
    numbers = random.Random(size)
    samples = [[-math.log(numbers.expovariate(1)) for _ in range(size)] for _ in range(_SIMULATED)]
    fits = [fit(sample) for sample in samples]
    pairs = list(zip(fits, samples, strict=True))
    gaps, reaches = (found.gap(sample) for found, sample in pairs), (found.reach(sample) for found, sample in pairs)
    return fits, sorted(gaps), sorted(reaches)


@lru_cache
def _allowance(size: int, rate: float) -> float:
    """Return by how many estimated scales an estimated quantile may be too low."""
    fits, _, _ = _simulated(size)
    short = sorted((_reduced(rate) - found.quantile(rate)) / found.scale for found in fits)
    return short[math.ceil(CONFIDENCE * _SIMULATED) - 1]


def fit(sample: Sequence[float]) -> Gumbel:
    """Return the distribution of maximum likelihood. Raise ValueError for fewer than three numbers, or equal ones."""
    least, size = min(sample), len(sample)
    shifted = [value - least for value in sample]
    mean = math.fsum(shifted) / size
    if size < 3 or not 0 < mean < math.inf:
        raise ValueError("expected three or more finite numbers that are not all equal")
    low, high, scale = 0.0, mean, mean / 2
    for _ in range(200):
        # The function whose root is the scale rises from below 0 at ``low`` to above 0 at ``high``.
        weights = [math.exp(-value / scale) for value in shifted]
        total = math.fsum(weights)
        weighted = math.fsum(map(operator.mul, shifted, weights)) / total
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorObservation:
    """One output in one run of a test: the share of its bound that the largest error took."""

    test: str
    output: str
    #: Position of the layer that gives the bound.
    layer: str
    draw: int
    used: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The shares that tests of the same arithmetic used in each draw. ``fitted`` is None if they vary too little."""

    tests: tuple[str, ...]
    output: str
    values: tuple[float, ...]
    fitted: Gumbel | None

    @property
    def largest(self) -> float:
        return max(self.values)

    def rate(self, factor: float) -> float:
        """Return the probability of a false alarm in a run where bounds are ``factor`` times as wide."""
        if self.fitted is None:
            return 0.0 if self.largest <= factor else 1.0
        return self.fitted.tail(factor)


@dataclass(frozen=True, kw_only=True)
class LayerCalibration:
    """The result of the runs for one layer."""

    layer: str
    samples: tuple[Sample, ...]
    #: The rate of false alarms per run of a test that is asked for.
    wanted: float

    @cached_property
    def tests(self) -> int:
        return len({test for sample in self.samples for test in sample.tests})

    @cached_property
    def runs(self) -> int:
        return sum(len(sample.values) * len(sample.tests) for sample in self.samples)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Return the shares of all runs that differ in arithmetic or inputs, in order."""
        varying = [
            value for sample in self.samples for value in (sample.values if sample.fitted else set(sample.values))
        ]
        return tuple(sorted(varying))

    @property
    def worst(self) -> Sample:
        """Return the sample that needs the widest bounds."""
        return max(self.samples, key=self._asks)

    def _asks(self, sample: Sample) -> float:
        return sample.largest if sample.fitted is None else max(sample.largest, sample.fitted.upper(self.wanted))

    def share(self, part: float) -> float:
        """Return the share of its bound that ``part`` of the runs did not exceed."""
        return self.values[max(0, math.ceil(part * len(self.values)) - 1)]

    def rate(self, factor: float) -> float:
        """Return the rate of false alarms, for the worst test, where bounds are ``factor`` times as wide."""
        return max(sample.rate(factor) for sample in self.samples)

    @property
    def at_most(self) -> float:
        """Return a limit of the rate that assumes no distribution: with :data:`CONFIDENCE`, a higher rate would have shown."""
        return -math.expm1(math.log1p(-CONFIDENCE) / len(self.values))

    @property
    def factor(self) -> float | None:
        """Return the factor of the bounds for the wanted rate, with :data:`CONFIDENCE`; None: see ``why_not``."""
        return None if self.why_not else self._asks(self.worst)

    @cached_property
    def why_not(self) -> str:
        """Return why no bounds can be proposed; empty if they can."""
        if not any(value > 0 for value in self.values):
            return "no error was seen: every run gave the numbers nearest to the exact values"
        if self.worst.fitted is None:
            values = len(set(self.worst.values))
            differ = "is the same in each draw" if values == 1 else f"has {values} values only, {LEAST} are needed"
            return f"what {self.worst.tests[0]} uses {differ}: nothing to fit a distribution to"
        return _misfit(self.worst, self.worst.fitted)


def _misfit(sample: Sample, fitted: Gumbel) -> str:
    """Return why a fitted distribution does not describe its sample; empty if it does."""
    gap, usual = fitted.gap(sample.values), usual_gap(fitted.size)
    if gap > usual:
        unlike = f"what {sample.tests[0]} uses is not distributed like largest errors of sums"
        return f"{unlike}: {gap:.2f} from the fit at most, where {usual:.2f} is usual"
    if fitted.reach(sample.values) > usual_reach(fitted.size):
        second = sorted(sample.values)[-2]
        apart = f"in one draw {sample.tests[0]} uses {sample.largest:.2g}, in all others {second:.2g} at most"
        return f"{apart}: its errors have a longer tail than can be fitted; more seeds may show it"
    return ""


def calibrate(observations: Iterable[ErrorObservation], *, wanted: float) -> list[LayerCalibration]:
    """Return the calibration of each layer, in the order of the observations. All shares must be finite."""
    drawn: dict[str, dict[tuple[str, str], dict[int, float]]] = {}
    for one in observations:
        drawn.setdefault(one.layer, {}).setdefault((one.output, one.test), {})[one.draw] = one.used
    return [
        LayerCalibration(layer=layer, samples=tuple(_samples(tests)), wanted=wanted) for layer, tests in drawn.items()
    ]


def _samples(tests: Mapping[tuple[str, str], Mapping[int, float]]) -> Iterable[Sample]:
    alike: dict[tuple[str, tuple[tuple[int, float], ...]], list[str]] = {}
    for (output, test), drawn in tests.items():
        alike.setdefault((output, tuple(sorted(drawn.items()))), []).append(test)
    for (output, used), names in alike.items():
        values = tuple(value for _, value in used)
        yield Sample(tests=tuple(names), output=output, values=values, fitted=_fitted(values))


def _fitted(values: Sequence[float]) -> Gumbel | None:
    return fit(values) if len(set(values)) >= LEAST else None
