"""Name the trivial outputs, which need no program, that pass for a golden under some bounds.

A comparison ends at the first block that has a wrong element, as a rule the first of all, so that the answer costs little beside
the comparison that it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlir_matrix.actions.numerics import dtypes, sketch
from mlir_matrix.actions.numerics.census import BLOCK
from mlir_matrix.actions.numerics.criteria import Criteria, compare_block
from mlir_matrix.actions.numerics.dtypes import Array, Doubles

ZEROS, ONES, MEAN, NAN = "all zeros", "all ones", "the mean everywhere", "NaN everywhere"
#: Elements of the first block; each further one has twice as many.
_FIRST = 1 << 9


def passing(expected: Array, dtype: str, criteria: Criteria, others: Mapping[str, Array]) -> list[str]:
    """Return the names of trivial outputs that pass for ``expected``, a golden.

    ``others``: by name, arrays as stored, which count where they have the same shape and storage, like inputs passed through.
    All are sorted already where the order of elements does not count.
    """
    found = _constants(expected, dtype, criteria)
    if criteria.bounds is not None and np.signbit(criteria.bounds).all():
        found.append(NAN)
    for name, stored in others.items():
        fits = stored.shape == expected.shape and stored.dtype == dtypes.STORAGE[dtype]
        if fits and _passes(stored, expected, dtype, criteria):
            found.append(name)
    return found


def passing_sketch(rows: Doubles, dtype: str, criteria: Criteria) -> list[str]:
    """Return the constants that pass for the sketch of a golden.

    A constant passes where it does for the kept elements and the largest size of each block, and all elements are finite.
    """
    blocks = rows[1:]
    kept, largest = blocks[:, sketch.PICKED].reshape(-1), blocks[:, sketch.LARGEST]
    if blocks[:, sketch.COUNTS].any() or (dtype not in dtypes.FLOATS and largest.max() >= 2.0**53):
        return []
    largest = np.copysign(largest, kept.mean())
    return _constants(np.concatenate([kept, largest]).astype(dtypes.golden_storage(dtype)), dtype, criteria)


def _constants(expected: Array, dtype: str, criteria: Criteria) -> list[str]:
    """Return the constants that pass. The mean of one element is no trivial output."""
    if criteria.nan == "same" and _is_nan(expected):
        return [NAN]
    values: dict[str, complex] = {ZEROS: 0.0, ONES: 1.0}
    if expected.size > 1:
        with np.errstate(all="ignore"):
            values[MEAN] = expected.mean(dtype=np.result_type(expected, np.float64)).item()
    made: dict[bytes, tuple[str, Array]] = {}
    for name, value in values.items():
        try:
            stored = dtypes.encode(np.array([value]), dtype)
        except dtypes.DtypeError:
            # Where NaN is expected beside numbers no constant passes.
            continue
        made.setdefault(stored.tobytes(), (name, np.broadcast_to(stored, (expected.size,))))
    return [name for name, stored in made.values() if _passes(stored, expected, dtype, criteria)]


def _is_nan(expected: Array) -> bool:
    """Return whether every element is NaN; what is not shows in the first block."""
    flat = expected.reshape(-1)
    blocks = (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))
    return expected.dtype.kind in "fc" and all(np.isnan(block).all() for block in blocks)


def _passes(stored: Array, expected: Array, dtype: str, criteria: Criteria) -> bool:
    left, right = stored.reshape(-1), expected.reshape(-1)
    start, size = 0, _FIRST
    while start < right.size:
        part = slice(start, start + size)
        if compare_block(start, left[part], right[part], dtype, criteria).wrong.any():
            return False
        start, size = start + size, min(2 * size, BLOCK)
    return True
