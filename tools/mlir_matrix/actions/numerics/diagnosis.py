"""Guess what a wrong output looks like: all zeros, transposed, shifted by one, rounded or cut to a narrower type.

Each guess is a simple change of what is expected. It is named where it explains nearly all elements of a sample that the comparison
finds wrong, and only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.criteria import Criteria, compare_block
from mlir_matrix.actions.numerics.dtypes import Array

Places = NDArray[np.int64]
#: Elements of a guess that are looked at, evenly spread.
_SAMPLE = 4096
#: The share of wrong elements that a guess has to explain.
_EXPLAINS = 0.97
#: How much nearer than what is expected an element must be to a guess.
_NEARER = 16.0


def diagnose(actual: Array, expected: Array, dtype: str, criteria: Criteria) -> str:
    """Return a guess in words; empty if none fits. ``actual`` is as stored, ``expected`` a golden of the same shape."""
    if expected.size < 2 or not expected.ndim:
        return ""
    sample = np.unique(np.linspace(0, expected.size - 1, _SAMPLE).astype(np.int64))
    stored, right = actual.reshape(-1)[sample], expected.reshape(-1)[sample]
    given = dtypes.decode(stored, dtype)
    wrong = compare_block(0, stored, right, dtype, criteria.of_elements(sample)).wrong
    if not wrong.any():
        return ""
    if np.count_nonzero(wrong & (given == 0)) >= _EXPLAINS * np.count_nonzero(wrong):
        # What is only near 0 was written.
        return "what is wrong is 0: nothing was written there, or to another buffer"
    with np.errstate(all="ignore"):
        apart = np.abs(dtypes.numbers(given) - dtypes.numbers(right))
        for words, values in _guesses(expected, sample, dtype):
            nearer = np.abs(dtypes.numbers(given) - dtypes.numbers(values)) * _NEARER <= np.where(
                np.isnan(apart), np.inf, apart
            )
            same = (given == values) | nearer
            explains = np.count_nonzero(same & wrong) >= _EXPLAINS * np.count_nonzero(wrong)
            if explains and not np.array_equal(values, right):
                return words
        return _constant(given[wrong])


def _guesses(expected: Array, sample: Places, dtype: str) -> Iterator[tuple[str, Array]]:
    """Yield sentences, and the elements of the sample that each predicts."""
    right = expected.reshape(-1)[sample]
    if right.dtype.kind in "fci":
        yield "its sign is turned: actual is -1 times expected", -right
    for words, places in _moved(expected.shape, sample):
        yield words, expected[places]
    if dtype in ("f32", "f64"):
        for narrow in ("bf16", "f16"):
            yield from _narrowed(right, narrow)


def _narrowed(right: Array, narrow: str) -> Iterator[tuple[str, Array]]:
    """Round to the nearest number, and towards zero."""
    codes = dtypes.rounded(right, narrow)
    nearest = dtypes.decode(codes, narrow)
    yield f"it looks rounded to {narrow} on the way", nearest
    before = codes.view(np.uint16) - (np.abs(nearest) > np.abs(right)).astype(np.uint16)
    yield f"it looks cut to {narrow} on the way, not rounded", dtypes.decode(before.view(codes.dtype), narrow)


def _moved(shape: Sequence[int], sample: Places) -> Iterator[tuple[str, tuple[Places, ...]]]:
    """Yield sentences, and by axis the indices that the sample's elements come from."""
    places = np.unravel_index(sample, shape)
    for axis, size in enumerate(shape):
        if size > 1:
            at = places[axis]
            # The element at the rim has none to come from: it stays unexplained.
            yield f"it is shifted by one along axis {axis}: an index too high", _with(places, axis, (at + 1) % size)
            yield f"it is shifted by one along axis {axis}: an index too low", _with(places, axis, (at - 1) % size)
            yield f"it is reversed along axis {axis}", _with(places, axis, size - 1 - at)
    if len(shape) >= 2:
        *outer, rows, columns = shape
        if rows == columns > 1:
            turned = (*places[:-2], places[-1], places[-2])
            yield "the last two axes are exchanged: a transpose is missing, or one too many", turned
        elif rows > 1 and columns > 1:
            *before, last, second = np.unravel_index(sample, (*outer, columns, rows))
            turned = (*before, second, last)
            yield "the last two axes are exchanged in memory: a transpose is missing, or one too many", turned


def _with(places: tuple[Places, ...], axis: int, at: Places) -> tuple[Places, ...]:
    return (*places[:axis], at, *places[axis + 1 :])


def _constant(wrong: Array) -> str:
    if wrong.size < 2:
        return ""
    if wrong.dtype.kind in "fc" and np.isnan(wrong).all():
        return "all that is wrong is NaN"
    return f"all that is wrong is {wrong[0]!s}" if np.all(wrong == wrong[0]) else ""
