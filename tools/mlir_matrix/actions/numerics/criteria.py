"""Decide which elements are right: bounds, and policies for NaN, infinities, zeros and subnormals; and count the wrong ones.

An element is right if it is the expected value rounded to its dtype, if ``|a - e| <= atol + rtol * |e|``, or, with a ``max_ulp``,
if at most that many numbers of its dtype are between the two. One bound that holds is enough. NaN and infinities must equal the
expected value; only a negative bound of an element makes them right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import ROUNDED, Array, Doubles
from mlir_matrix.actions.numerics.formats import COMPLEX

Mask = NDArray[np.bool_]
Special = Literal["same", "refuse"]
Zeros = Literal["same", "distinct"]
Subnormals = Literal["keep", "flush"]


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Bounds, and policies for special values."""

    atol: float = 0.0
    rtol: float = 0.0
    #: How many numbers of the dtype may lie between; None: that is no criterion.
    max_ulp: float | None = None
    #: ``same``: right where NaN (an infinity of that sign) is expected. ``refuse``: never right, wherever it stands.
    nan: Special = "same"
    inf: Special = "same"
    #: ``same``: 0 and -0 are equal. ``distinct``: they are not.
    zeros: Zeros = "same"
    #: ``keep``: numbers like any other. ``flush``: both sides' count as 0, for targets that flush them.
    subnormals: Subnormals = "keep"
    #: By linear index, the bound of each element instead of ``atol`` and ``rtol``; these hold where it is infinite. A negative one
    #: is as large as its size, and what is not finite is right, too: programs in the dtype of the element may overflow.
    bounds: Doubles | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "max_ulp"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value!r}; a bound is 0 or more")
        for name, policy in (("nan", Special), ("inf", Special), ("zeros", Zeros), ("subnormals", Subnormals)):
            words = get_args(policy)
            if getattr(self, name) not in words:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(words)}")

    def of_elements(self, places: NDArray[np.intp]) -> Criteria:
        """Return the criteria of some elements, given by linear index."""
        return self if self.bounds is None else replace(self, bounds=self.bounds[places])

    @property
    def plain(self) -> bool:
        """Whether the policies are the usual ones."""
        return (self.nan, self.inf, self.zeros, self.subnormals) == ("same", "same", "same", "keep")


@dataclass(frozen=True, kw_only=True)
class ElementBlock:
    """The comparison of some elements. ``used`` is the share of the bound that the error takes, infinite for NaN."""

    start: int
    actual: Array
    expected: Array
    size: Doubles  # |expected|
    error: Doubles  # |actual - expected|, 0 where nothing nearer exists and where either is not finite
    relative: Doubles  # the error by the size, infinite where 0 is expected and something else came
    ulp: Doubles
    by_rtol: Doubles  # rtol * |expected|
    bound: Doubles
    used: Doubles
    wrong: Mask
    hopeless: Mask  # wrong whatever the bound
    nan: Mask  # wrong, and NaN on a side
    inf: Mask  # wrong, and infinite on a side (NaN on none)
    over_atol: Mask  # beyond each bound alone; not of what is hopeless
    over_rtol: Mask
    over_ulp: Mask

    @property
    def over(self) -> Mask:
        """Wrong by its error."""
        return self.wrong & ~self.hopeless


def compare_block(start: int, stored: Array, expected: Array, dtype: str, criteria: Criteria) -> ElementBlock:
    """Compare stored elements with goldens (doubles for floating point); ``start`` is the index of the first."""
    if criteria.subnormals == "flush" and dtype in ROUNDED:
        stored, expected = _flushed(stored, expected, dtype)
    ulp = dtypes.ulp_distance(stored, expected, dtype)
    actual = dtypes.decode(stored, dtype)
    size: Doubles = np.abs(expected if dtype in COMPLEX else expected.astype(np.float64))
    with np.errstate(all="ignore"):
        # Not 0 * inf, which is no number.
        by_rtol = criteria.rtol * size if criteria.rtol else np.zeros_like(size)
        bound = criteria.atol + by_rtol
        if criteria.bounds is not None:
            own = criteria.bounds[start : start + bound.size]
            bound = np.where(np.isfinite(own), np.abs(own), bound)
        if dtype in ROUNDED:
            nan, finite, same, error = _floating(actual, expected, ulp, criteria)
            infinite = np.isinf(actual) | np.isinf(expected)
            if criteria.bounds is not None:
                overflows = np.signbit(own) & ~np.isfinite(actual)
                same, ulp = same | overflows, np.where(overflows, 0, ulp)
        else:
            nan = infinite = np.zeros(actual.shape, dtype=bool)
            finite, same, error = ~nan, ulp == 0, ulp
        wrong = ~(same | (finite & (error <= bound)))
        used = np.where(same, 0.0, np.where(finite, error / bound, np.inf))
        if criteria.max_ulp is not None:
            wrong &= ~(finite & (ulp <= criteria.max_ulp))
            used = np.minimum(used, np.where(same, 0.0, np.where(finite, ulp / criteria.max_ulp, np.inf)))
        relative = np.where(error == 0, 0.0, error / size)
    hopeless = wrong & ~finite
    most = np.inf if criteria.max_ulp is None else criteria.max_ulp
    return ElementBlock(
        start=start, actual=actual, expected=expected, size=size, error=error, relative=relative, ulp=ulp, by_rtol=by_rtol,
        bound=bound, used=used, wrong=wrong, hopeless=hopeless, nan=wrong & nan, inf=wrong & ~nan & infinite,
        over_atol=~hopeless & (error > criteria.atol), over_rtol=~hopeless & (error > by_rtol), over_ulp=~hopeless & (ulp > most),
    )  # fmt: skip


def _floating(actual: Array, expected: Array, ulp: Doubles, criteria: Criteria) -> tuple[Mask, Mask, Mask, Doubles]:
    """Return masks of NaN, of elements that a bound decides and of equal elements, and the errors."""
    nan = np.isnan(actual) | np.isnan(expected)
    finite = np.isfinite(actual) & np.isfinite(expected)
    same = _same(actual, expected, ulp)
    error: Doubles = np.where(finite & ~same, np.abs(actual - expected), 0.0)
    if criteria.nan == "refuse":
        same &= ~nan
    if criteria.inf == "refuse":
        same &= ~(np.isinf(actual) | np.isinf(expected))
    if criteria.zeros == "distinct":
        unlike = _unlike_zeros(actual, expected)
        # An error of 0 is within any bound.
        same, finite = same & ~unlike, finite & ~unlike
    return nan, finite, same, error


def _same(actual: Array, expected: Array, ulp: Doubles) -> Mask:
    """Return where the actual element is the expected value rounded to the dtype, infinities and NaN included.

    Of complex numbers that have a NaN or an infinity, the other part must be the expected one, too.
    """
    missing = np.isnan(actual) | np.isnan(expected)
    if not np.iscomplexobj(actual):
        real: Mask = np.where(missing, np.isnan(actual) & np.isnan(expected), ulp == 0)
        return real
    parts = ((actual.real, expected.real), (actual.imag, expected.imag))
    equal = [(a == e) | (np.isnan(a) & np.isnan(e)) for a, e in parts]
    special = missing | np.isinf(actual) | np.isinf(expected)
    same: Mask = np.where(special, equal[0] & equal[1], ulp == 0)
    return same


def _unlike_zeros(actual: Array, expected: Array) -> Mask:
    if np.iscomplexobj(actual):
        return _unlike_zeros(actual.real, expected.real) | _unlike_zeros(actual.imag, expected.imag)
    unlike: Mask = (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))
    return unlike


def _flushed(stored: Array, expected: Array, dtype: str) -> tuple[Array, Array]:
    """Replace subnormal numbers of the dtype by 0, on both sides."""
    if dtype in COMPLEX:
        left, right = stored.copy(), expected.copy()
        for part in ("real", "imag"):
            flat = _flushed(getattr(stored, part), getattr(expected, part), COMPLEX[dtype])
            setattr(left, part, flat[0])
            setattr(right, part, flat[1])
        return left, right
    least = dtypes.least_normal(dtype)
    actual = dtypes.decode(stored, dtype)
    zeros = dtypes.rounded(np.copysign(0.0, actual), dtype)
    golden = np.where(np.abs(expected) < least, np.copysign(0.0, expected), expected)
    return np.where(np.abs(actual) < least, zeros, stored), golden


@dataclass
class Counts:
    """What is counted; names as in the census. The order is that of ``Counts`` in ``compare/gate.c``."""

    wrong: int = 0
    over_atol: int = 0
    over_rtol: int = 0
    over_ulp: int = 0
    nan_mismatches: int = 0
    inf_mismatches: int = 0
    nan_expected: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    error_used: float = 0.0

    def merge(self, other: Counts) -> None:
        """Add other counts: integers are summed, of floats the larger one stays."""
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, mine + its if isinstance(mine, int) else max(mine, its))


def count(block: ElementBlock) -> Counts:
    defined = (block.size > 0) & np.isfinite(block.size)
    floating = block.expected.dtype.kind in "fc"
    return Counts(
        wrong=int(np.count_nonzero(block.wrong)),
        over_atol=int(np.count_nonzero(block.over_atol)),
        over_rtol=int(np.count_nonzero(block.over_rtol)),
        over_ulp=int(np.count_nonzero(block.over_ulp)),
        nan_mismatches=int(np.count_nonzero(block.nan)),
        inf_mismatches=int(np.count_nonzero(block.inf)),
        nan_expected=int(np.count_nonzero(np.isnan(block.expected))) if floating else 0,
        max_abs=float(block.error.max(initial=0.0)),
        max_rel=float(block.relative.max(where=defined, initial=0.0)),
        max_ulp=float(block.ulp.max(initial=0.0)),
        error_used=float(block.used.max(initial=0.0)),
    )
