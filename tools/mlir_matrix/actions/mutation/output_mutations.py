"""Plant mistakes in outputs that no change of the IR expresses.

A mutation is a function from a :class:`Planting` to mutants of its array: a list of (where, what the kernel would have given),
of the same shape and storage, none where the mistake cannot be made in such an output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import FLOATS, Array
from mlir_matrix.actions.numerics.formats import FORMATS

#: Edge of a tile; what it does not divide is the remainder.
_TILE = 8
#: Bits of an f32's mantissa that are flipped, the last place first; in other types those as far up their mantissa.
_BITS = (0, 2, 4, 8, 12, 16, 20, 22)
#: A relative error of 2.4e-4 everywhere: a constant with its fourth digit wrong.
_SCALE = 1 + 2.0**-12


@dataclass(frozen=True, kw_only=True)
class Planting:
    """An output in which mistakes are planted: as stored, its dtype, and that of another draw where there is one."""

    stored: Array
    dtype: str
    draw: int
    other: Array | None


Mutants = list[tuple[str, Array]]
Mutation = Callable[[Planting], Mutants]


def flips(dtype: str) -> dict[str, int]:
    """Return the bits to flip by name: those of f32's mantissa, scaled; of integers the lowest and the highest."""
    if dtype in FLOATS:
        top = FORMATS[dtype].digits - 2
        return {f"output-flip-bit-{bit}": round(bit * top / 22) for bit in _BITS}
    width = 8 * dtypes.STORAGE[dtype].itemsize
    return {"output-flip-bit-0": 0} | ({} if dtype == "bool" else {"output-flip-bit-top": width - 1})


def _elements(planting: Planting) -> list[int]:
    """Return the last element, the largest, and one that depends on the draw.

    Of floating-point ones those that have a leading bit: without it, in zeros and subnormal numbers, a bit of the mantissa is less
    than rounding anything else costs, and the sign next to nothing.
    """
    values = dtypes.decode(planting.stored, planting.dtype).reshape(-1).astype(np.float64)
    least = dtypes.least_normal(planting.dtype) if planting.dtype in FLOATS else 0.0
    fit = np.flatnonzero(~(np.abs(values) < least))
    if not fit.size:
        return []
    size = np.where(np.isfinite(values[fit]), np.abs(values[fit]), -1.0)
    chosen = [fit[-1], fit[np.argmax(size)], fit[(7919 * (planting.draw + 1)) % fit.size]]
    return list(dict.fromkeys(int(element) for element in chosen))


def _at(planting: Planting, linear: int) -> str:
    return f"element {dtypes.index_of(linear, planting.stored.shape)}"


def flip(name: str, planting: Planting) -> Mutants:
    """Flip one bit of one element."""
    bit = flips(planting.dtype).get(name)
    if bit is None:
        return []
    return _flipped(planting, bit)


def sign(planting: Planting) -> Mutants:
    """Flip the sign of one element."""
    if planting.dtype not in FLOATS:
        return []
    return _flipped(planting, 8 * planting.stored.dtype.itemsize - 1)


def _flipped(planting: Planting, bit: int) -> Mutants:
    mutants = []
    for element in _elements(planting):
        changed = planting.stored.copy()
        words = changed.reshape(-1).view(f"<u{changed.dtype.itemsize}")
        words[element] ^= words.dtype.type(1 << bit)
        mutants.append((_at(planting, element), changed))
    return mutants


def zeroed(planting: Planting) -> Mutants:
    """Leave the remainder of an axis after whole tiles unwritten."""
    return _without_tails(planting, np.zeros_like(planting.stored))


def stale(planting: Planting) -> Mutants:
    """Do the same, with the memory of another call."""
    return [] if planting.other is None else _without_tails(planting, planting.other)


def _without_tails(planting: Planting, left: Array) -> Mutants:
    """Take the remainder of each axis after whole tiles from another array."""
    mutants = []
    for axis, size in enumerate(planting.stored.shape):
        changed, place = planting.stored.copy(), (slice(None),) * axis + (slice(size - (size % _TILE or 1), None),)
        changed[place] = left[place]
        mutants.append((f"axis {axis}", changed))
    return mutants


def transposed(planting: Planting) -> Mutants:
    """Write the first tile of the last two axes by columns."""
    shape = planting.stored.shape
    edge = min(_TILE, *shape[-2:]) if len(shape) >= 2 else 0
    if edge < 2:
        return []
    changed = planting.stored.copy()
    tile = (0,) * (len(shape) - 2) + (slice(edge), slice(edge))
    changed[tile] = planting.stored[tile].T
    return [(f"tile of {edge} by {edge}", changed)]


def shifted(planting: Planting) -> Mutants:
    """Shift everything by one along an axis, the last element to the front."""
    return [
        (f"axis {axis}", np.roll(planting.stored, 1, axis=axis))
        for axis, size in enumerate(planting.stored.shape)
        if size > 1
    ]


def rounded(planting: Planting) -> Mutants:
    """Round everything to bf16."""
    if planting.dtype not in FORMATS or planting.dtype == "bf16":
        return []
    return _computed(planting, lambda values: dtypes.decode(dtypes.encode(values, "bf16"), "bf16"))


def scaled(planting: Planting) -> Mutants:
    """Increase everything by one part in 4096."""
    return _computed(planting, lambda values: values * _SCALE) if planting.dtype in FLOATS else []


def _computed(planting: Planting, change: Callable[[Array], Array]) -> Mutants:
    values = dtypes.decode(planting.stored, planting.dtype)
    if np.isnan(values).any():
        return []
    try:
        return [("everything", dtypes.encode(change(values), planting.dtype))]
    except dtypes.DtypeError:
        # Too large for the type: the mistake would be another one.
        return []


#: By name; those that flip bits are of every dtype.
MUTATIONS: Mapping[str, Mutation] = {
    **{name: partial(flip, name) for dtype in ("f32", "i32") for name in flips(dtype)},
    "output-sign": sign,
    "output-zeroed-tail": zeroed,
    "output-stale-tail": stale,
    "output-transposed-tile": transposed,
    "output-shifted": shifted,
    "output-rounded-to-bf16": rounded,
    "output-scaled": scaled,
}
