"""Describe where the wrong elements of a tensor are: a tail, a row, a lane, a corner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
