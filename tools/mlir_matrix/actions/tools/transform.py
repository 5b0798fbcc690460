"""Transform tensors for a property: scale, permute or slice. As an action, it makes the inputs of another run.

Inputs and outputs have the names of ``params["inputs"]``. The action fails if no input changes, because the runs would be equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.numerics import dtypes, prng
from mlir_matrix.actions.numerics.dtypes import ROUNDED, STORAGE, Array
from mlir_matrix.actions.params import Op, TransformParams

#: The seed of the permutations. Nothing else uses it.
_SEED = 20_240_607


def run(action: Action[TransformParams]) -> None:
    """Write each input, changed by its operation."""
    changed = False
    for told in action.params["inputs"]:
        name, dtype, op = told["name"], told["dtype"], told["op"]
        before = dtypes.load_npy(action.inputs[name])
        after = _stored(before, dtype, op, name)
        changed = changed or not same(before, after)
        dtypes.save_npy(action.outputs[name], after)
    if not changed:
        raise ActionFailed("no input changes: both runs would be the same")


def _stored(before: Array, dtype: str, op: Op, name: str) -> Array:
    if op["kind"] != "scale":
        return moved(before, op)
    try:
        values = scaled(dtypes.decode(before, dtype), op["factor"], dtype)
        return dtypes.encode(values, dtype) if dtype in ROUNDED else values
    except dtypes.DtypeError as error:
        raise ActionFailed(f"{name} times {op['factor']} does not fit: {error}") from None


def expected(stored: Array, dtype: str, op: Op | None) -> Array:
    """Apply an operation to a stored output: as doubles for floating point, in its own type otherwise."""
    values = dtypes.decode(stored, dtype)
    if op is None:
        return values
    return scaled(values, op["factor"], dtype) if op["kind"] == "scale" else moved(values, op)


def moved(array: Array, op: Op) -> Array:
    """Move elements of an array, or take a part of it."""
    if op["kind"] == "slice":
        return np.take(array, np.arange(op["start"], op["stop"]), axis=op["axis"])
    assert op["kind"] == "permute"
    for axis in op["axes"]:
        array = np.take(array, order(array.shape[axis]), axis=axis)
    return array


def scaled(values: Array, factor: float, dtype: str) -> Array:
    """Multiply decoded elements by a number. Raise DtypeError if an integer does not fit its type."""
    if dtype in ROUNDED:
        with np.errstate(all="ignore"):
            return np.asarray(values * np.float64(factor))
    wide = values.astype(object) * int(factor)
    limits = np.iinfo(STORAGE[dtype])
    outside = np.flatnonzero((wide < int(limits.min)) | (wide > int(limits.max)))
    if outside.size:
        raise dtypes.DtypeError(f"element {outside[0]} is {wide.reshape(-1)[outside[0]]}", int(outside[0]))
    return np.asarray(wide, dtype=STORAGE[dtype])


def order(size: int) -> NDArray[np.int64]:
    """Return a fixed permutation of ``size`` numbers, at least 2, that is not the identity."""
    index = np.arange(size, dtype=np.uint64)
    stream = 0
    while True:
        found = prng.permutation(prng.stream_key(_SEED, stream), index.copy(), size).astype(np.int64)
        if (found != np.arange(size)).any():
            return found
        stream += 1


def same(left: Array, right: Array) -> bool:
    """Return whether two arrays hold the same numbers; NaN equals NaN."""
    kind = left.dtype.kind in "fc" and right.dtype.kind in "fc"
    return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=kind))
