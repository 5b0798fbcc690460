"""Count wrong elements and the largest errors. Every comparison begins with this, and a passing one needs no more.

It uses compiled code if available (:mod:`mlir_matrix.compare.native`), else NumPy in blocks. The results are equal bit by bit.
Arrays are read in place, including mapped files, and no array of their size is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import BLOCK
from mlir_matrix.actions.numerics.criteria import Counts, Criteria, compare_block, count
from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.compare import native


def gate(actual: Array, expected: Array, dtype: str, criteria: Criteria, *, golden: bool = False) -> tuple[Counts, str]:
    """Count over two stored arrays of one shape. Return the counts and the engine, ``native`` or ``numpy``.

    ``golden``: ``expected`` holds doubles (see :func:`mlir_matrix.actions.numerics.dtypes.golden_storage`).
    """
    if not golden and actual.size >= native.WORTHWHILE and native.takes(dtype, criteria):
        counts = native.count(actual, expected, dtype, criteria)
        if counts is not None:
            total = Counts()
            for part in counts:
                total.merge(part)
            return total, "native"
    total = Counts()
    for start, left, right in blocks(actual, expected):
        doubles = right if golden else dtypes.decode(right, dtype)
        total.merge(count(compare_block(start, left, doubles, dtype, criteria)))
    return total, "numpy"


def blocks(actual: Array, expected: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield blocks of both arrays in C order, with the linear index of the first element, for any memory layout."""
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
