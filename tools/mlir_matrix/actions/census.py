"""The census of a comparison: how many elements are wrong, by how much, where, and which bound would do.

An element is right when ``|a - e| <= atol + rtol * |e|``; NaN is right only where NaN is expected, an infinity only
where the same one is, and what is nearest to the expected value in its dtype is always right. A :class:`Census` takes
the elements block by block (each pass stays within the cache) and remembers only what the report needs, so its memory
does not grow with the output, bar one counter per index of each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions import dtypes
from mlir_matrix.actions.dtypes import FLOATS, Array, Doubles

Mask = NDArray[np.bool_]

WORST = 5
_BLOCK = 1 << 15
_DECADES = np.array([float(f"1e{power}") for power in range(-323, 309)])


@dataclass(frozen=True, kw_only=True)
class _Block:
    """One block, element by element. ``used`` is the share of the bound that the error takes, infinite for NaN."""

    start: int
    actual: Array
    expected: Array
    size: Doubles  # |expected|
    error: Doubles  # |actual - expected|, 0 where nothing nearer exists and where either is not finite
    bound: Doubles
    used: Doubles
    wrong: Mask
    nan: Mask  # wrong, and NaN on one side
    inf: Mask  # wrong, and infinite on one side (NaN on none)


class Census:
    """Counts what a comparison finds. ``shape`` is that of the output, ``dtype`` its dtype; bounds are absolute."""

    def __init__(self, shape: Sequence[int], dtype: str, *, atol: float, rtol: float) -> None:
        self._shape, self._dtype, self._atol, self._rtol = tuple(shape), dtype, atol, rtol
        self.elements = 0
        self.wrong = 0
        self._nan = self._inf = 0
        self._max_abs = self._max_rel = self._max_ulp = self.error_used = 0.0
        self._atol_needed = self._rtol_needed = 0.0
        self._by_abs: dict[float, int] = {}
        self._by_rel: dict[float, int] = {}
        self._worst: list[tuple[tuple[float, float, int], dict[str, Any]]] = []
        self._axes = [np.zeros(size, dtype=np.int64) for size in self._shape]

    def add(self, actual: Array, expected: Array) -> None:
        """Count all elements of the two arrays: as stored, and as a golden; both of the output's shape."""
        left, right = actual.reshape(-1), expected.reshape(-1)
        for start in range(0, left.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            apart = dtypes.ulp_distance(left[part], right[part], self._dtype)
            self._max_ulp = max(self._max_ulp, float(apart.max()))
            self._add(self._compare(start, dtypes.decode(left[part], self._dtype), right[part], apart))

    def _compare(self, start: int, actual: Array, expected: Array, apart: Doubles) -> _Block:
        size: Doubles = np.abs(expected.astype(np.float64))
        with np.errstate(all="ignore"):
            # Not 0 * inf, which is no number.
            bound = self._atol + (self._rtol * size if self._rtol else np.zeros_like(size))
            if self._dtype in FLOATS:
                nan = np.isnan(actual) | np.isnan(expected)
                finite = np.isfinite(actual) & np.isfinite(expected)
                # Nobody can do better than the expected value rounded to the dtype, which may be infinite.
                same = np.where(nan, np.isnan(actual) & np.isnan(expected), apart == 0)
                error = np.where(finite & ~same, np.abs(actual - expected), 0.0)
            else:
                nan = np.zeros(actual.shape, dtype=bool)
                finite, same, error = ~nan, apart == 0, apart
            wrong = ~(same | (finite & (error <= bound)))
            used = np.where(same, 0.0, np.where(finite, error / bound, np.inf))
        return _Block(
            start=start,
            actual=actual,
            expected=expected,
            size=size,
            error=error,
            bound=bound,
            used=used,
            wrong=wrong,
            nan=wrong & nan,
            inf=wrong & ~finite & ~nan,
        )

    def _add(self, block: _Block) -> None:
        self.elements += block.error.size
        self.wrong += int(np.count_nonzero(block.wrong))
        self._nan += int(np.count_nonzero(block.nan))
        self._inf += int(np.count_nonzero(block.inf))
        self._max_abs = max(self._max_abs, float(block.error.max()))
        self.error_used = max(self.error_used, float(block.used.max()))
        relative = _relative(block.error, block.size)
        defined = (block.size > 0) & np.isfinite(block.size)
        self._max_rel = max(self._max_rel, float(relative.max(where=defined, initial=0.0)))
        self._need(block)
        _count_decades(self._by_abs, block.error[~(block.nan | block.inf)])
        self._remember(block, relative)
        if block.wrong.any():
            _count_decades(self._by_rel, relative[block.wrong & ~block.nan & ~block.inf])
            self._mark(block.start + np.flatnonzero(block.wrong))

    def _mark(self, places: NDArray[np.int64]) -> None:
        """Count wrong elements, given by their linear index, by their index of each axis."""
        if self._shape:
            for counts, indices in zip(self._axes, np.unravel_index(places, self._shape), strict=True):
                np.add.at(counts, indices, 1)

    def _need(self, block: _Block) -> None:
        """The least bounds that let this block pass, each with the other as it is."""
        if block.nan.any() or block.inf.any():
            self._atol_needed = self._rtol_needed = float("inf")
            return
        with np.errstate(all="ignore"):
            beyond = block.error > self._rtol * block.size
            error, size = block.error[beyond], block.size[beyond]
            relative = self._rtol * size
            self._atol_needed = max(self._atol_needed, _least(error - relative, error, relative, None))
            beyond = block.error > self._atol
            error, size = block.error[beyond], block.size[beyond]
            rtol = np.where(size > 0, (error - self._atol) / size, np.inf)
            self._rtol_needed = max(self._rtol_needed, _least(rtol, error, self._atol, size))

    def _remember(self, block: _Block, relative: Doubles) -> None:
        """Keep the worst elements: by the share of the bound, then by the error, then the first."""
        candidates = np.flatnonzero(block.used > 0)
        if candidates.size > WORST:
            least = np.partition(block.used[candidates], -WORST)[-WORST]
            candidates = candidates[block.used[candidates] >= least]
        unlike = block.nan | block.inf
        errors = np.where(unlike, np.inf, block.error)[candidates]
        order = np.lexsort((candidates, -errors, -block.used[candidates]))[:WORST]
        for at, error in zip(candidates[order], errors[order], strict=True):
            linear = block.start + int(at)
            rank = (-float(block.used[at]), -float(error), linear)
            self._worst.append((rank, self._element(block, relative, int(at))))
        self._worst = sorted(self._worst, key=lambda entry: entry[0])[:WORST]

    def _element(self, block: _Block, relative: Doubles, at: int) -> dict[str, Any]:
        unlike = bool(block.nan[at] or block.inf[at])
        return {
            "index": [int(place) for place in np.unravel_index(block.start + at, self._shape)],
            "expected": plain(block.expected[at]),
            "actual": plain(block.actual[at]),
            "abs": plain(np.nan if unlike else block.error[at]),
            "rel": plain(np.nan if unlike else relative[at]),
            "bound": plain(block.bound[at]),
            "used": plain(block.used[at]),
            "wrong": plain(block.wrong[at]),
        }

    def result(self) -> dict[str, Any]:
        """All of it, ready for JSON: numbers that JSON does not have are the strings ``nan``, ``inf`` and ``-inf``."""
        return {
            "elements": self.elements,
            "wrong": self.wrong,
            "wrong_percent": round(100.0 * self.wrong / max(1, self.elements), 4),
            "over_bound": self.wrong - self._nan - self._inf,
            "nan_mismatches": self._nan,
            "inf_mismatches": self._inf,
            "max_abs": plain(self._max_abs),
            "max_rel": plain(self._max_rel),
            "max_ulp": plain(self._max_ulp),
            "error_used": plain(self.error_used),
            "atol_needed": plain(self._atol_needed),
            "rtol_needed": plain(self._rtol_needed),
            "abs_decades": [[decade, count] for decade, count in sorted(self._by_abs.items())],
            "rel_decades_over_bound": [[plain(decade), count] for decade, count in sorted(self._by_rel.items())],
            "worst": [element for _, element in self._worst],
            "where": where(self._axes, self.wrong, self.elements) if self.wrong else "",
        }


def _relative(error: Doubles, size: Doubles) -> Doubles:
    """Error by size of what is expected; infinite where 0 is expected and something else came."""
    with np.errstate(all="ignore"):
        return np.where(error == 0, 0.0, error / size)


def _least(bounds: Doubles, error: Doubles, offset: Doubles | float, size: Doubles | None) -> float:
    """The largest of ``bounds``, each carried up by the few last places that rounding took from it."""
    for _ in range(3):
        reached = offset + (bounds if size is None else bounds * size)
        bounds = np.where(reached < error, np.nextafter(bounds, np.inf), bounds)
    return float(bounds.max(initial=0.0))


def _count_decades(counts: dict[float, int], values: Doubles) -> None:
    """Add to the counts by decade, which are named by where they begin; 0 and infinity stand for themselves."""
    decades = _DECADES[np.maximum(np.searchsorted(_DECADES, values, side="right") - 1, 0)]
    decades = np.where((values == 0) | np.isinf(values), values, decades)
    for decade, count in zip(*np.unique(decades, return_counts=True), strict=True):
        counts[float(decade)] = counts.get(float(decade), 0) + int(count)


def where(axes: Sequence[NDArray[np.int64]], wrong: int, elements: int) -> str:
    """Where the wrong elements stand, as far as that tells something: ``axes`` counts them by index of each axis."""
    if wrong == elements:
        return "every element"
    if wrong == 1:
        return "one element"
    hints = [hint for axis, counts in enumerate(axes) if (hint := _axis_hint(axis, counts, elements))]
    if hints:
        return "only at " + ", ".join(hints)
    return "nearly everywhere" if wrong > 0.9 * elements else "scattered"


def _axis_hint(axis: int, counts: NDArray[np.int64], elements: int) -> str:
    hit, size = np.flatnonzero(counts), counts.size
    if size < 2 or hit.size == size:
        return ""
    first, last = int(hit[0]), int(hit[-1])
    if hit.size == 1:
        whole = " (all of it)" if int(counts[first]) == elements // size else ""
        return f"index {first}{', the last,' if first == size - 1 else ''} of axis {axis}{whole}"
    if 2 * first >= size and last == size - 1:
        return f"the tail of axis {axis}, from index {first} of {size}"
    if hit.size == last - first + 1 and 2 * hit.size <= size:
        return f"indices {first} to {last} of axis {axis}"
    return ""


def plain(value: Any) -> int | float | str | bool:
    """A NumPy or Python number as JSON has it."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and not np.isfinite(number):
        return "nan" if np.isnan(number) else "inf" if number > 0 else "-inf"
    assert isinstance(number, (bool, int, float))
    return number
