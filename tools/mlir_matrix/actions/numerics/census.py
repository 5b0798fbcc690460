"""Take the census of a comparison: how many elements are wrong, by how much, where, and which bound would pass them.

:mod:`criteria` defines what is right. A :class:`CensusCounter` takes elements block by block, within the CPU's cache, and
keeps only what the report needs: its memory does not grow with the output, except for one counter per index of each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics.criteria import Counts, Criteria, ElementBlock, Mask, compare_block, count
from mlir_matrix.actions.numerics.dtypes import Array, Doubles, index_of
from mlir_matrix.actions.numerics.error_stats import ErrorStats, locate

WORST = 5
BLOCK = 1 << 15
_DECADES = np.array([float(f"1e{power}") for power in range(-323, 309)])


class CensusCounter:
    """Counts what a comparison finds. ``shape`` is that of the output, ``dtype`` its dtype."""

    def __init__(self, shape: Sequence[int], dtype: str, *, criteria: Criteria) -> None:
        self._shape, self._dtype, self._criteria = tuple(shape), dtype, criteria
        self.elements = 0
        #: How many wrong ones have no finite bound of their own, so that those of the layer decide.
        self.wrong_by_layer = 0
        self._over = 0
        self._counts = Counts()
        self._needed = {"atol": 0.0, "rtol": 0.0, "ulp": 0.0}
        self._by_abs: dict[float, int] = {}
        self._rel_over_atol: dict[float, int] = {}
        self._abs_over_rtol: dict[float, int] = {}
        self._worst: list[tuple[tuple[float, float, int], dict[str, Any]]] = []
        #: Wrong ones by their index of each axis: those over the bound, and those that no bound would help.
        self._places = tuple([np.zeros(size, dtype=np.int64) for size in self._shape] for _ in range(2))
        self._moments = ErrorStats()

    @property
    def wrong(self) -> int:
        """How many elements are wrong."""
        return self._counts.wrong

    @property
    def error_used(self) -> float:
        """The largest share of its bound that an error takes."""
        return self._counts.error_used

    def add(self, actual: Array, expected: Array) -> None:
        """Count all elements of two arrays of the output's shape: one as stored, one as a golden."""
        left, right = actual.reshape(-1), expected.reshape(-1)
        for start in range(0, left.size, BLOCK):
            part = slice(start, start + BLOCK)
            self.add_block(start, left[part], right[part])

    def add_block(self, start: int, stored: Array, expected: Array) -> None:
        """Count neighbouring elements; ``start`` is the linear index of the first."""
        block = compare_block(start, stored, expected, self._dtype, self._criteria)
        self.elements += block.error.size
        if self._criteria.bounds is not None:
            own = self._criteria.bounds[start : start + block.wrong.size]
            self.wrong_by_layer += int(np.count_nonzero(block.wrong & ~np.isfinite(own)))
        self._over += int(np.count_nonzero(block.over))
        self._counts.merge(count(block))
        self._moments.add(block)
        # Histograms; of those that are over one bound that of the other error.
        _count_decades(self._by_abs, block.error[~block.hopeless])
        _count_decades(self._rel_over_atol, block.relative[block.over_atol])
        _count_decades(self._abs_over_rtol, block.error[block.over_rtol])
        self._need(block)
        self._remember(block)
        if block.wrong.any():
            for axes, mask in zip(self._places, (block.over, block.hopeless), strict=True):
                self._mark(axes, block.start + np.flatnonzero(mask))

    def _mark(self, axes: list[NDArray[np.int64]], places: NDArray[np.int64]) -> None:
        """Count elements, given by linear index, by their index on each axis."""
        if self._shape and places.size:
            for axis, indices in enumerate(np.unravel_index(places, self._shape)):
                axes[axis] += np.bincount(indices, minlength=axes[axis].size)

    def _need(self, block: ElementBlock) -> None:
        """Update the least bounds that let this block pass, each with the others unchanged."""
        if block.hopeless.any():
            self._needed = dict.fromkeys(self._needed, math.inf)
            return
        error, size, most = block.error, block.size, self._criteria.max_ulp
        by_ulp: Mask = block.ulp <= most if most is not None else np.zeros(error.shape, dtype=bool)
        with np.errstate(all="ignore"):
            beyond = (error > block.by_rtol) & ~by_ulp
            needed = _least((error - block.by_rtol)[beyond], error[beyond], block.by_rtol[beyond], None)
            self._needed["atol"] = max(self._needed["atol"], needed)
            beyond = (error > self._criteria.atol) & ~by_ulp
            rtol = np.where(size > 0, (error - self._criteria.atol) / size, np.inf)[beyond]
            needed = _least(rtol, error[beyond], self._criteria.atol, size[beyond])
            self._needed["rtol"] = max(self._needed["rtol"], needed)
            beyond = error > block.bound
            self._needed["ulp"] = max(self._needed["ulp"], float(block.ulp[beyond].max(initial=0.0)))

    def _remember(self, block: ElementBlock) -> None:
        """Keep the worst elements: by the share of the bound, then by the error, then the first."""
        least = self._worst[-1][0][0] if len(self._worst) == WORST else 0.0
        candidates = np.flatnonzero((block.used > 0) & (block.used >= -least))
        if candidates.size > WORST:
            least = np.partition(block.used[candidates], -WORST)[-WORST]
            candidates = candidates[block.used[candidates] >= least]
        errors = np.where(block.hopeless, np.inf, block.error)[candidates]
        order = np.lexsort((candidates, -errors, -block.used[candidates]))[:WORST]
        for at, error in zip(candidates[order], errors[order], strict=True):
            linear = block.start + int(at)
            rank = (-float(block.used[at]), -float(error), linear)
            self._worst.append((rank, self._element(block, int(at))))
        self._worst = sorted(self._worst, key=lambda entry: entry[0])[:WORST]

    def _element(self, block: ElementBlock, at: int) -> dict[str, object]:
        unlike = bool(block.nan[at] or block.inf[at])
        return {
            "index": index_of(block.start + at, self._shape),
            "expected": plain(block.expected[at]),
            "actual": plain(block.actual[at]),
            "abs": plain(np.nan if unlike else block.error[at]),
            "rel": plain(np.nan if unlike else block.relative[at]),
            "ulp": plain(np.nan if unlike else block.ulp[at]),
            "bound": plain(block.bound[at]),
            "used": plain(block.used[at]),
            "wrong": plain(block.wrong[at]),
        }

    def _where(self) -> str:
        hopeless = self.wrong - self._over
        found = [
            (locate(axes, number, self.elements), kind)
            for axes, number, kind in zip(
                self._places, (self._over, hopeless), ("over the bound", "NaN or infinite"), strict=True
            )
            if number
        ]
        return "; ".join(f"{kind}: {text}" if len(found) > 1 else text for text, kind in found)

    def result(self) -> dict[str, Any]:
        """Return the census for JSON; numbers that JSON lacks become the strings ``nan``, ``inf`` and ``-inf``."""
        return {
            "elements": self.elements,
            **{name: plain(value) for name, value in asdict(self._counts).items()},
            "wrong_percent": round(100.0 * self.wrong / max(1, self.elements), 4),
            "over_bound": self._over,
            **({} if self._criteria.bounds is None else {"own_bounds": True}),
            **{f"{name}_needed": plain(value) for name, value in self._needed.items()},
            "norms": {
                name: {key: plain(value) for key, value in norm.items()} for name, norm in self._moments.norms().items()
            },
            "cosine": plain(self._moments.cosine),
            "abs_decades": _listed(self._by_abs),
            "rel_decades_over_atol": _listed(self._rel_over_atol),
            "abs_decades_over_rtol": _listed(self._abs_over_rtol),
            "worst": [element for _, element in self._worst],
            "where": self._where(),
            "character": self._moments.character(self.wrong, self.elements) if self.wrong else "",
        }


def _least(bounds: Doubles, error: Doubles, offset: Doubles | float, size: Doubles | None) -> float:
    """Return the largest of ``bounds``, each raised by the last places that rounding took from it."""
    for _ in range(3):
        reached = offset + (bounds if size is None else bounds * size)
        bounds = np.where(reached < error, np.nextafter(bounds, np.inf), bounds)
    return float(bounds.max(initial=0.0))


def _count_decades(counts: dict[float, int], values: Doubles) -> None:
    """Add to the counts by decade, named by its start; 0 and infinity stand for themselves."""
    decades = _DECADES[np.maximum(np.searchsorted(_DECADES, values, side="right") - 1, 0)]
    decades = np.where((values == 0) | np.isinf(values), values, decades)
    for decade, number in zip(*np.unique(decades, return_counts=True), strict=True):
        counts[float(decade)] = counts.get(float(decade), 0) + int(number)


def _listed(counts: dict[float, int]) -> list[list[object]]:
    return [[plain(decade), number] for decade, number in sorted(counts.items())]


def plain(value: float | np.generic) -> int | float | str | bool:
    """Return a number as JSON has it; a complex one as Python writes it."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, complex):
        return f"{number.real!r}{'+' if math.copysign(1, number.imag) > 0 else '-'}{abs(number.imag)!r}j"
    if isinstance(number, float) and not math.isfinite(number):
        return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    assert isinstance(number, (bool, int, float))
    return number
