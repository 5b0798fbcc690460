"""Element types: how each is stored in a ``.npy`` file, rounded to, read as double and counted in last places.

bf16 has no type in NumPy: it is stored as its bits in 16-bit words (``<u2``); that they are bf16 is in the
specification of the input or output, not in the file.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Doubles = NDArray[np.float64]

FLOATS = ("f64", "f32", "f16", "bf16")
STORAGE: dict[str, np.dtype[Any]] = {
    "f64": np.dtype("<f8"),
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "i64": np.dtype("<i8"),
    "i32": np.dtype("<i4"),
    "i16": np.dtype("<i2"),
    "i8": np.dtype("i1"),
    "u8": np.dtype("u1"),
    "bool": np.dtype("?"),
}


class DtypeError(ValueError):
    """An element that its dtype cannot hold; ``index`` is its linear index."""

    def __init__(self, message: str, index: int) -> None:
        self.index = index
        super().__init__(message)


def golden_storage(dtype: str) -> np.dtype[Any]:
    """How expected values are stored: double for floating point, its own type for what is exact."""
    return STORAGE["f64"] if dtype in FLOATS else STORAGE[dtype]


def decode(stored: Array, dtype: str) -> Array:
    """Stored elements as what one can compute with: double for floating point, themselves for the others."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return stored.astype(np.float64) if dtype in FLOATS else stored


def encode(values: Doubles, dtype: str) -> Array:
    """Doubles rounded once to ``dtype``, to nearest, ties to even. Raises :class:`DtypeError` for what does not fit.

    An infinity is one in every floating-point type; what is finite must not become one.
    """
    _refuse(np.isnan(values), values, dtype)
    if dtype in FLOATS:
        stored = _round_float(values, dtype)
        back = np.asarray(decode(stored, dtype), dtype=np.float64)
        _refuse(~np.isfinite(back) & np.isfinite(values), values, dtype)
        return stored
    _refuse(np.isinf(values), values, dtype)
    whole = np.rint(values)
    low, high = _limits(dtype)
    _refuse((whole < low) | (whole > high), values, dtype)
    return whole.astype(STORAGE[dtype])


def _limits(dtype: str) -> tuple[float, float]:
    """Least and largest double that the integer type holds."""
    if dtype == "bool":
        return 0.0, 1.0
    info = np.iinfo(STORAGE[dtype])
    return float(info.min), float(np.nextafter(2.0**63, 0.0)) if dtype == "i64" else float(info.max)


def _refuse(wrong: NDArray[np.bool_], values: Doubles, dtype: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong.reshape(-1)))
        raise DtypeError(f"element {index} is {float(values.reshape(-1)[index])!r}, which {dtype} cannot hold", index)


def _round_float(values: Doubles, dtype: str) -> Array:
    """Rounded to nearest even; what is too large becomes infinite."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _round_bf16(values) if dtype == "bf16" else values.astype(STORAGE[dtype])


def _round_bf16(values: Doubles) -> NDArray[np.uint16]:
    """By way of f32 *rounded to odd*: its last bit remembers that something was cut, so rounding again is right."""
    singles = values.astype(np.float32)
    words: NDArray[np.uint32] = singles.view(np.uint32)
    back = singles.astype(np.float64)
    away = (np.abs(back) > np.abs(values)).astype(np.uint32)
    inexact = (back != values).astype(np.uint32)
    words = (words - away) | inexact
    even = (words >> np.uint32(16)) & np.uint32(1)
    rounded: NDArray[np.uint32] = (words + np.uint32(0x7FFF) + even) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded.astype(np.uint16))


def ulp_distance(actual: Array, expected: Array, dtype: str) -> Doubles:
    """How many numbers of ``dtype`` lie between each stored element and the rounded golden. NaN counts as 0.

    ``actual`` is as stored, ``expected`` as a golden; for integers this is the difference.
    """
    if dtype not in FLOATS:
        return difference(actual, expected)
    golden = np.asarray(expected, dtype=np.float64)
    rounded = _round_float(golden, dtype)
    distance = difference(_ordered(actual, dtype), _ordered(rounded, dtype))
    missing = np.isnan(golden) | np.isnan(np.asarray(decode(actual, dtype), dtype=np.float64))
    return np.where(missing, 0.0, distance)


def _ordered(stored: Array, dtype: str) -> NDArray[np.int64]:
    """Integers in the order of the floating-point numbers, neighbours one apart, both zeros 0."""
    width = STORAGE[dtype].itemsize
    words = stored.view(f"<i{width}").astype(np.int64)
    least = -(2 ** (8 * width - 1))
    return np.where(words < 0, np.int64(least) - words, words)


def difference(left: Array, right: Array) -> Doubles:
    """|left - right| of integers, without wrapping, as a double (exact up to 2**53, never 0 where they differ)."""
    first, second = left.astype(np.int64), right.astype(np.int64)
    high, low = np.maximum(first, second), np.minimum(first, second)
    return (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)


def load_npy(path: str) -> Array:
    """Read a ``.npy`` file of exactly the size that its header says; never a pickle. Raises ValueError, OSError."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not read")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError("the file holds Python objects, not numbers")
        elements = 1
        for size in shape:
            elements *= size
        there, wanted = os.fstat(file.fileno()).st_size - file.tell(), elements * dtype.itemsize
        if there != wanted:
            raise ValueError(f"{'truncated' if there < wanted else 'too long'}: {there} bytes of data, not {wanted}")
        flat = np.fromfile(file, dtype=dtype, count=elements)
    return flat.reshape(shape, order="F" if fortran else "C")


def save_npy(path: str, array: Array) -> None:
    """Write ``array`` so that equal arrays give equal bytes."""
    with open(path, "wb") as file:
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        np.lib.format.write_array(file, contiguous, version=(1, 0), allow_pickle=False)
