"""Sum up the errors of a comparison: norms, the cosine, the kind of error, and where wrong elements are (a tail, a row, a lane).

Norms are taken from the differences, so that nothing cancels: the residue of ``a - s * e`` for the best scale ``s``, say, is a sum
of squares of ``a - e`` less one square, not of numbers a million times larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics.criteria import ElementBlock
from mlir_matrix.actions.numerics.dtypes import Array, numbers

#: A residue less than this share of the error says that one number explains it.
_EXPLAINED = 0.05
#: Below this the sum of the squares of actual, which is not taken by itself, is lost in that of expected.
_LEAST_SCALE = 1e-3
#: From here on, errors of one sign are no chance (for the 32 and more elements that are asked for).
_LEANS = 0.9
_ENOUGH = 32
#: The share of elements that are few.
_FEW = 0.1


class ErrorStats:
    """Sums over the elements that are finite on both sides."""

    def __init__(self) -> None:
        self.count = self.positive = self.negative = 0
        #: Sums of d = actual - expected: of d, |d|, d * d, d * e; of |e| and e * e; of d * d where it is wrong.
        self.d: Any = np.longdouble(0)
        self.abs_d = self.dd = self.de = self.abs_e = self.ee = self.wrong_dd = self.d
        self.max_d = self.max_e = 0.0

    def add(self, block: ElementBlock) -> None:
        """Count a block."""
        with np.errstate(all="ignore"):
            finite = np.isfinite(block.actual) & np.isfinite(block.expected)
            actual, expected = numbers(block.actual[finite]), numbers(block.expected[finite])
            if _extreme(expected) or _extreme(actual - expected):
                actual, expected = _wide(actual), _wide(expected)
            apart = actual - expected
            size = np.abs(apart)
            self.count += int(apart.size)
            self.abs_d += size.sum()
            self.dd += np.square(size).sum()
            self.wrong_dd += np.square(size[block.wrong[finite]]).sum()
            self.abs_e += np.abs(expected).sum()
            self.ee += np.square(np.abs(expected)).sum()
            self.max_d = max(self.max_d, float(size.max(initial=0.0)))
            self.max_e = max(self.max_e, float(np.abs(expected).max(initial=0.0)))
            self.de += (apart * np.conj(expected)).real.sum()
            if not np.iscomplexobj(apart):
                self.d += apart.sum()
                self.positive += int(np.count_nonzero(apart > 0))
                self.negative += int(np.count_nonzero(apart < 0))

    @property
    def cosine(self) -> float:
        """Of the angle between the two as vectors; NaN where one is 0."""
        actual = self.ee + 2 * self.de + self.dd
        with np.errstate(all="ignore"):
            length = np.sqrt(self.ee) * np.sqrt(max(actual, 0 * actual))
            return min(1.0, float((self.ee + self.de) / length)) if length else math.nan

    def norms(self) -> dict[str, dict[str, float]]:
        """Return L1, L2 and maximum of the error, absolute and relative to the same norm of the expected values."""
        pairs = {
            "l1": (self.abs_d, self.abs_e),
            "l2": (np.sqrt(self.dd), np.sqrt(self.ee)),
            "max": (self.max_d, self.max_e),
        }
        return {name: {"abs": float(error), "rel": float(_ratio(error, size))} for name, (error, size) in pairs.items()}

    def character(self, wrong: int, elements: int) -> str:
        """Describe the kind of error: few wrong elements, or a drift of all."""
        if not self.dd or not np.isfinite(self.dd):
            return ""
        if wrong < _FEW * elements and self.wrong_dd > 0.999 * self.dd:
            return f"few wrong elements: the other {elements - wrong} are as close as they should be"
        return self._drift()

    def _drift(self) -> str:
        if self.count < _ENOUGH:
            return ""
        if self._scaled():
            return f"all scaled: actual is {float(1 + self.de / self.ee):.9g} times expected"
        if self.dd - self.d**2 / self.count < _EXPLAINED**2 * self.dd:
            return f"all shifted: actual is expected {'+' if self.d > 0 else '-'} {float(abs(self.d) / self.count):.4g}"
        more, all_of = max(self.positive, self.negative), self.positive + self.negative
        if all_of >= _ENOUGH and more >= _LEANS * all_of:
            way = "large" if self.positive > self.negative else "small"
            return f"a drift: {100 * more / all_of:.3g} % of the errors have one sign, actual is too {way}"
        return ""

    def _scaled(self) -> bool:
        """Return whether actual is a multiple of expected: the rest is small beside the error and beside actual.

        The second says that something of expected is in it, which a constant near 0 has nothing of.
        """
        if not self.ee or abs(1 + self.de / self.ee) < _LEAST_SCALE:
            return False
        actual = self.ee + 2 * self.de + self.dd
        return bool(self.dd - self.de**2 / self.ee < _EXPLAINED**2 * min(self.dd, actual))


def _extreme(values: Array) -> bool:
    """Return whether the square of the largest number overflows or underflows."""
    top = float(np.abs(values).max(initial=0.0))
    return top != 0 and not 1e-140 < top < 1e140


def _wide(values: Array) -> Array:
    """Convert to a type with a wider exponent than double."""
    return values.astype(np.clongdouble if values.dtype.kind == "c" else np.longdouble)


def _ratio(error: Any, size: Any) -> Any:
    return error / size if size else 0.0 if not error else math.inf


#: The longest period of lanes that is looked for.
_LANES = 64


def locate(axes: Sequence[NDArray[np.int64]], wrong: int, elements: int) -> str:
    """Describe where the wrong elements are; ``axes`` counts them by index on each axis."""
    if wrong == elements:
        return "every element"
    if wrong == 1:
        return "one element"
    hints = [hint for axis, counts in enumerate(axes) if (hint := _axis_hint(axis, counts, elements))]
    if hints:
        return "only " + ", and ".join(hints)
    return "nearly everywhere" if wrong > 0.9 * elements else "scattered"


def _axis_hint(axis: int, counts: NDArray[np.int64], elements: int) -> str:
    hit, size = np.flatnonzero(counts), counts.size
    if size < 2 or hit.size == size:
        return ""
    first, last = int(hit[0]), int(hit[-1])
    if hit.size == 1:
        whole = ", all of it" if int(counts[first]) == elements // size else ""
        at_end = f" of {size}, the last{whole}{_remainder(first, 1)}" if first == size - 1 else whole
        return f"index {first} along axis {axis}{at_end}"
    if hit.size == last - first + 1:
        return _range_hint(axis, first, last, size)
    return _lane_hint(axis, hit, size)


def _range_hint(axis: int, first: int, last: int, size: int) -> str:
    """Describe a run of neighbouring indices: a remainder after whole tiles, the first ones, or some between."""
    if last == size - 1:
        return f"indices >= {first} along axis {axis} of {size}{_remainder(first, size - first)}"
    if first == 0:
        return f"indices < {last + 1} along axis {axis} of {size}" if 2 * (last + 1) <= size else ""
    return f"indices {first} to {last} along axis {axis} of {size}" if 2 * (last - first + 1) <= size else ""


def _remainder(first: int, rest: int) -> str:
    """Describe a remainder after tiles of the largest power of 2 that divides them."""
    tile = first & -first
    return f": a remainder, after tiles of {tile}" if tile > rest and tile >= 4 else ""


def _lane_hint(axis: int, hit: NDArray[np.int64], size: int) -> str:
    """Describe indices at one distance: one lane of a vector, one channel of a group."""
    step = int(np.gcd.reduce(np.diff(hit)))
    if hit.size >= 3 and 2 <= step <= _LANES and hit.size >= size // step:
        return f"every {step}{'nd' if step == 2 else 'rd' if step == 3 else 'th'} index along axis {axis}, from {int(hit[0])}"
    return ""
