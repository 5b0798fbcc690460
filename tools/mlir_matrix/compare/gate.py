"""Pass or fail, with the counts and the largest errors: what every comparison begins with, and all that one which passes needs.

In compiled code where that is there (:mod:`mlir_matrix.compare.native`), else in NumPy block by block; the answers are equal to the
last bit. Arrays are taken as they lie in memory, mapped files included; nothing of their size is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from mlir_matrix.actions import dtypes
from mlir_matrix.actions.census import BLOCK
from mlir_matrix.actions.criteria import Criteria, compare_block
from mlir_matrix.actions.dtypes import Array
from mlir_matrix.compare import native


@dataclass
class Counts:
    """What the gate counts; names as in the census."""

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
        """Add what was counted elsewhere: counts are summed, of floats the larger stays."""
        for field in fields(self):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            setattr(self, field.name, mine + its if isinstance(mine, int) else max(mine, its))


def gate(actual: Array, expected: Array, dtype: str, criteria: Criteria, *, golden: bool = False) -> tuple[Counts, str]:
    """Count over two arrays of one shape, as stored; and say by what: ``native`` or ``numpy``.

    ``golden``: ``expected`` holds doubles (see :func:`mlir_matrix.actions.dtypes.golden_storage`).
    """
    if not golden and actual.size >= native.WORTHWHILE and native.takes(dtype, criteria):
        counts = native.count(actual, expected, dtype, criteria)
        if counts is not None:
            total = Counts()
            for part in counts:
                total.merge(Counts(*part))  # type: ignore[arg-type]
            return total, "native"
    total = Counts()
    for start, left, right in blocks(actual, expected):
        total.merge(_count(start, left, right if golden else dtypes.decode(right, dtype), dtype, criteria))
    return total, "numpy"


def blocks(actual: Array, expected: Array) -> Iterator[tuple[int, Array, Array]]:
    """Neighbouring elements of both in C order, and the linear index of the first; however the arrays lie in memory."""
    if actual.flags.c_contiguous and expected.flags.c_contiguous:
        left, right = actual.reshape(-1), expected.reshape(-1)
        for start in range(0, left.size, BLOCK):
            yield start, left[start : start + BLOCK], right[start : start + BLOCK]
        return
    flags = ["external_loop", "buffered", "zerosize_ok"]
    start = 0
    with np.nditer([actual, expected], flags=flags, order="C", buffersize=BLOCK) as iterator:  # type: ignore[call-overload]
        for left, right in iterator:
            yield start, left.copy(), right.copy()
            start += left.size


def _count(start: int, stored: Array, expected: Array, dtype: str, criteria: Criteria) -> Counts:
    block = compare_block(start, stored, expected, dtype, criteria)
    comparable = ~block.hopeless
    most = math.inf if criteria.max_ulp is None else criteria.max_ulp
    with np.errstate(all="ignore"):
        relative = np.where(block.error == 0, 0.0, block.error / block.size)
        over_rtol = block.error > (criteria.rtol * block.size if criteria.rtol else 0.0)
    defined = (block.size > 0) & np.isfinite(block.size)
    floating = expected.dtype.kind in "fc"
    return Counts(
        wrong=int(np.count_nonzero(block.wrong)),
        over_atol=int(np.count_nonzero(comparable & (block.error > criteria.atol))),
        over_rtol=int(np.count_nonzero(comparable & over_rtol)),
        over_ulp=int(np.count_nonzero(comparable & (block.ulp > most))),
        nan_mismatches=int(np.count_nonzero(block.nan)),
        inf_mismatches=int(np.count_nonzero(block.inf)),
        nan_expected=int(np.count_nonzero(np.isnan(expected))) if floating else 0,
        max_abs=float(block.error.max(initial=0.0)),
        max_rel=float(relative.max(where=defined, initial=0.0)),
        max_ulp=float(block.ulp.max(initial=0.0)),
        error_used=float(block.used.max(initial=0.0)),
    )
