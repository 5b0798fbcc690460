"""What tolerances would have to be: from the errors of many runs to the factor on a layer's bounds that they ask for.

An observation is the share of its bound that the worst element of an output took in one run. Scaling ``atol`` and ``rtol``
alike divides all shares by the same factor, so that shares are all that is needed. Runs of one test differ in their inputs
only and are alike; different tests are not, so that each has a distribution of its own, and a layer must hold for the
worst of its tests. Tests whose shares are equal in every draw ran the same arithmetic, and are one sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlir_matrix.tolerances.gumbel import CONFIDENCE, Gumbel, fit, usual_gap, usual_reach

#: A sample of fewer different numbers says nothing about one run in a million.
LEAST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One output in one run of a test: the share of its bound that the largest error took."""

    test: str
    output: str
    #: Position of the layer that gives the bound.
    layer: str
    draw: int
    used: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What tests of the same arithmetic used in each draw. ``fitted`` is None where that varies too little."""

    tests: tuple[str, ...]
    output: str
    values: tuple[float, ...]
    fitted: Gumbel | None

    @property
    def largest(self) -> float:
        return max(self.values)

    def rate(self, factor: float) -> float:
        """How probable a false alarm is in a run where bounds are ``factor`` times as wide."""
        if self.fitted is None:
            return 0.0 if self.largest <= factor else 1.0
        return self.fitted.tail(factor)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What the runs say about one layer."""

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
        """The shares of all runs that differ in arithmetic or inputs, in order."""
        varying = [
            value for sample in self.samples for value in (sample.values if sample.fitted else set(sample.values))
        ]
        return tuple(sorted(varying))

    @property
    def worst(self) -> Sample:
        """The sample that the layer has to hold for: it asks for the widest bounds."""
        return max(self.samples, key=self._asks)

    def _asks(self, sample: Sample) -> float:
        return sample.largest if sample.fitted is None else max(sample.largest, sample.fitted.upper(self.wanted))

    def share(self, part: float) -> float:
        """The share of its bound that ``part`` of the runs did not exceed."""
        return self.values[max(0, math.ceil(part * len(self.values)) - 1)]

    def rate(self, factor: float) -> float:
        """The rate of false alarms, for the worst test, where bounds are ``factor`` times as wide."""
        return max(sample.rate(factor) for sample in self.samples)

    @property
    def at_most(self) -> float:
        """What the runs prove without any distribution: a rate above this would have shown, with :data:`CONFIDENCE`."""
        return -math.expm1(math.log1p(-CONFIDENCE) / len(self.values))

    @property
    def factor(self) -> float | None:
        """So many times as wide bounds must be for the rate that is wanted, with :data:`CONFIDENCE`; None: see ``why_not``."""
        return None if self.why_not else self._asks(self.worst)

    @cached_property
    def why_not(self) -> str:
        """Why no bounds can be proposed; empty where they can."""
        if not any(value > 0 for value in self.values):
            return "no error was seen: what is nearest to the right value came out in every run"
        if self.worst.fitted is None:
            values = len(set(self.worst.values))
            differ = "is the same in each draw" if values == 1 else f"has {values} values only, {LEAST} are needed"
            return f"what {self.worst.tests[0]} uses {differ}: nothing to fit a distribution to"
        return _misfit(self.worst, self.worst.fitted)


def _misfit(sample: Sample, fitted: Gumbel) -> str:
    """Why a distribution that is fitted to a sample says nothing about it; empty where it does."""
    gap, usual = fitted.gap(sample.values), usual_gap(fitted.size)
    if gap > usual:
        unlike = f"what {sample.tests[0]} uses is not distributed like largest errors of sums"
        return f"{unlike}: {gap:.2f} from the fit at most, where {usual:.2f} is usual"
    if fitted.reach(sample.values) > usual_reach(fitted.size):
        second = sorted(sample.values)[-2]
        apart = f"in one draw {sample.tests[0]} uses {sample.largest:.2g}, in all others {second:.2g} at most"
        return f"{apart}: its errors have a longer tail than can be fitted; more seeds may show it"
    return ""


def calibrate(observations: Iterable[Observation], *, wanted: float) -> list[Calibration]:
    """What the runs say about each layer, in the order in which layers come up. All shares must be finite."""
    drawn: dict[str, dict[tuple[str, str], dict[int, float]]] = {}
    for one in observations:
        drawn.setdefault(one.layer, {}).setdefault((one.output, one.test), {})[one.draw] = one.used
    return [Calibration(layer=layer, samples=tuple(_samples(tests)), wanted=wanted) for layer, tests in drawn.items()]


def _samples(tests: Mapping[tuple[str, str], Mapping[int, float]]) -> Iterable[Sample]:
    alike: dict[tuple[str, tuple[tuple[int, float], ...]], list[str]] = {}
    for (output, test), drawn in tests.items():
        alike.setdefault((output, tuple(sorted(drawn.items()))), []).append(test)
    for (output, used), names in alike.items():
        values = tuple(value for _, value in used)
        yield Sample(tests=tuple(names), output=output, values=values, fitted=_fitted(values))


def _fitted(values: Sequence[float]) -> Gumbel | None:
    return fit(values) if len(set(values)) >= LEAST else None
