"""Decide which of two programs is faster, by pairs of times.

A pair has a time of each side, measured one right after the other, so that what slows the machine slows both. The differences of
the logarithms of the times have a trimmed mean and, by their winsorized variance, an interval (Tukey and McLaughlin 1963): it
needs no normal distribution, and a few disturbed pairs do not move it. A difference counts only beyond a floor, because programs
with equal instructions differ by a percent by where the linker puts them.

Pairs are drawn until the interval decides. It is computed only at the numbers of :data:`LOOKS`, and the error that all of them
may make is spent in equal parts. How often the decision errs in practice is measured by ``matrix cost audit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import atan, cos, exp, log, log1p, pi, sin, sqrt
from typing import Literal

Word = Literal["faster", "slower", "same", "cannot tell"]

#: Differences of time up to this, as a share, do not count.
FLOOR = 0.02
#: The numbers of pairs at which to decide.
LOOKS = (7, 10, 15, 22, 30)
#: The chance, over all looks, to say «slower» of a program that is slower by just the floor; and so for the other words.
ERROR = 0.0025
#: How far the interval of a logarithm reaches if there are too few pairs; finite, because JSON has no infinity.
_WIDEST = 20.0
#: The largest quantile. With two pairs it is near.
_LARGEST_QUANTILE = 1e9


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the second side is against the first."""

    word: Word
    #: The time of the second side by that of the first, and its interval, in which it is with a chance of ``1 - 2 * ERROR``.
    ratio: float
    low: float
    high: float
    pairs: int


def decide(
    pairs: Sequence[tuple[float, float]], *, floor: float = FLOOR, final: bool = False, error: float = ERROR
) -> Decision | None:
    """Compare the times of pairs, in any unit; return None if more pairs are needed, unless ``final``.

    Raise ValueError if there is no pair, or if a time is not positive.
    """
    if not pairs or min(min(pair) for pair in pairs) <= 0:
        raise ValueError("a comparison needs pairs of positive times")
    if len(pairs) not in LOOKS and not final:
        return None
    middle, reach = _interval([log(second) - log(first) for first, second in pairs], error / len(LOOKS))
    word = _word(middle - reach, middle + reach, log1p(floor))
    if word == "cannot tell" and not final:
        return None
    low, high = exp(middle - reach), exp(middle + reach)
    return Decision(word=word, ratio=exp(middle), low=low, high=high, pairs=len(pairs))


def _word(low: float, high: float, floor: float) -> Word:
    if low > floor:
        return "slower"
    if high < -floor:
        return "faster"
    if low > -floor and high < floor:
        return "same"
    return "cannot tell"


def _interval(values: Sequence[float], error: float) -> tuple[float, float]:
    """Return the trimmed mean of values, and how far its interval reaches; ``error``: the chance to be above, or below."""
    count = len(values)
    if count < LOOKS[0]:
        return sum(values) / count, _WIDEST
    ordered = sorted(values)
    # A tenth on each side, but one disturbed pair of few, too.
    trimmed = max(count // 10, 1)
    kept = ordered[trimmed : count - trimmed]
    winsorized = [kept[0]] * trimmed + kept + [kept[-1]] * trimmed
    center = sum(winsorized) / count
    variance = sum((value - center) ** 2 for value in winsorized) / (count - 1)
    deviation = sqrt(variance * count) / len(kept)
    # One degree of freedom less than usual: so far out, the usual quantile is up to 15 % too near (4 million simulations).
    reach = min(student_quantile(error, len(kept) - 2) * deviation, _WIDEST)
    return sum(kept) / len(kept), reach


@cache
def student_quantile(above: float, freedom: int) -> float:
    """Return the value that Student's t, of so many degrees of freedom, exceeds with the probability ``above``."""
    low, high = 0.0, _LARGEST_QUANTILE
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if _student_above(middle, freedom) > above:
            low = middle
        else:
            high = middle
    return high


def _student_above(value: float, freedom: int) -> float:
    """Return the probability that Student's t exceeds a value, not negative (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = atan(value / sqrt(freedom))
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cos(angle) ** 2 * step / (step + 1)
    inside = 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
    return (1 - inside) / 2
