"""Tell times apart from noise: levels of times along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.judge.signature import Signature

#: Samples that a point needs: of fewer, the noise is not known.
FEWEST = 5
#: Smaller differences are never told apart: clocks are not finer for short kernels.
_LEAST = 0.02


def time_levels(samples: Mapping[int, Sequence[float]]) -> dict[int, Signature]:
    """Return the behaviours of the points of an axis by their samples in seconds; points with few samples are left out.

    Neighbours become one level, the most similar first, unless their medians differ by more than three times the noise. That is the
    distance of a point's median from its fastest sample: what disturbs a program only makes it slower.
    """
    known = {point: sorted(samples[point]) for point in sorted(samples) if len(samples[point]) >= FEWEST}
    levels = [[point] for point in known]
    noise = median(median(each) - each[0] for each in known.values()) if known else 0.0

    def middle(level: list[int]) -> float:
        return median(value for point in level for value in known[point])

    while len(levels) > 1:
        middles = [middle(level) for level in levels]
        gap, first = min((abs(one - next_), place) for place, (one, next_) in enumerate(pairwise(middles)))
        if gap > max(3 * noise, _LEAST * middles[first]):
            break
        levels[first : first + 2] = [levels[first] + levels[first + 1]]
    return {
        point: Signature(outcome=Outcome.PASS, details=(_duration(middle(level)),))
        for level in levels
        for point in level
    }


def _duration(value: float) -> str:
    unit, factor = next((each for each in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if value * each[1] >= 1), ("ns", 1e9))
    return f"{value * factor:.3g} {unit}"
