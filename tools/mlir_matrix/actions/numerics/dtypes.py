"""Store, round, decode and compare elements of each dtype.

bf16 and the 8-bit kinds have no type in NumPy: they are stored as their bits in words of their width (``<u2``, ``u1``);
what they are is in the specification of the input or output, not in the file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import EllipsisType
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics.formats import COMPLEX, FORMATS

Array = NDArray[Any]
Doubles = NDArray[np.float64]
#: What selects elements of an array.
Place: TypeAlias = int | slice | EllipsisType | Array | None
Index: TypeAlias = Place | tuple[Place, ...]


@dataclass(frozen=True)
class Float8:
    """A floating-point type of 8 bits: the widths of its fields, and which codes are no finite numbers.

    ``fn``: no infinity, and one NaN a sign, all ones. ``fnuz``: no infinity, no -0, whose code is the one NaN. Sources: OCP 8-bit
    Floating Point Specification 1.0; Noune et al., 8-bit Numerical Formats for Deep Neural Networks, 2022 (``fnuz``).
    """

    exponent: int
    mantissa: int
    bias: int
    kind: str = ""

    def value(self, code: int) -> float:
        """Return the number of a code from 0 to 255."""
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code >> self.mantissa) & ((1 << self.exponent) - 1)
        fraction = code & ((1 << self.mantissa) - 1)
        top = exponent == (1 << self.exponent) - 1
        if self.kind == "fnuz":
            if code == 0x80:
                return float("nan")
        elif self.kind == "fn":
            if top and fraction == (1 << self.mantissa) - 1:
                return float("nan")
        elif top:
            return float("nan") if fraction else sign * float("inf")
        if exponent == 0:
            return sign * fraction * 2.0 ** (1 - self.bias - self.mantissa)
        return sign * (1 + fraction * 2.0**-self.mantissa) * 2.0 ** (exponent - self.bias)


FLOAT8 = {
    "f8E5M2": Float8(5, 2, 15),
    "f8E4M3": Float8(4, 3, 7),
    "f8E3M4": Float8(3, 4, 3),
    "f8E4M3FN": Float8(4, 3, 7, "fn"),
    "f8E5M2FNUZ": Float8(5, 2, 16, "fnuz"),
    "f8E4M3FNUZ": Float8(4, 3, 8, "fnuz"),
    "f8E4M3B11FNUZ": Float8(4, 3, 11, "fnuz"),
}
FLOATS = ("f64", "f32", "f16", "bf16", *FLOAT8)
#: The types whose elements are rounded.
ROUNDED = (*FLOATS, *COMPLEX)
STORAGE: dict[str, np.dtype[Any]] = {
    "f64": np.dtype("<f8"),
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "i64": np.dtype("<i8"),
    "i32": np.dtype("<i4"),
    "i16": np.dtype("<i2"),
    "i8": np.dtype("i1"),
    "u64": np.dtype("<u8"),
    "u32": np.dtype("<u4"),
    "u16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
    "bool": np.dtype("?"),
    "c64": np.dtype("<c8"),
    "c128": np.dtype("<c16"),
    **dict.fromkeys(FLOAT8, np.dtype("u1")),
}

#: Bytes of an array above which its file is mapped into memory instead of read.
MAPPED = 16 << 20


def index_of(linear: int, shape: Sequence[int]) -> list[int]:
    """Return the index of an element in C order."""
    return [int(index) for index in np.unravel_index(linear, tuple(shape))]


class DtypeError(ValueError):
    """An element that its dtype cannot hold; ``index`` is its linear index."""

    def __init__(self, message: str, index: int) -> None:
        self.index = index
        super().__init__(message)


def least_normal(dtype: str) -> float:
    """Return the least positive number of a floating-point type that is not subnormal."""
    return FORMATS[dtype].least_normal if dtype in FORMATS else 2.0 ** (1 - FLOAT8[dtype].bias)


def golden_storage(dtype: str) -> np.dtype[np.generic]:
    """Return the dtype of goldens: double for floating point, the output's own type otherwise."""
    if dtype in COMPLEX:
        return STORAGE["c128"]
    return STORAGE["f64"] if dtype in FLOATS else STORAGE[dtype]


def unsigned(stored: Array, wanted: np.dtype[np.generic]) -> Array:
    """Return signed integers as the unsigned ones that are wanted, others unchanged.

    MLIR's integers have no sign, and some runtimes store all of them as signed ones.
    """
    return stored.view(wanted) if stored.dtype.str == wanted.str.replace("u", "i") else stored


def decode(stored: Array, dtype: str) -> Array:
    """Return stored elements as numbers: doubles for floating point, others unchanged."""
    if dtype in FLOAT8:
        return _codes(dtype)[stored]
    # A signalling NaN becomes a quiet one, which is said to be invalid.
    with np.errstate(invalid="ignore"):
        if dtype == "bf16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        if dtype in COMPLEX:
            return stored.astype(np.complex128)
        return stored.astype(np.float64) if dtype in FLOATS else stored


def parts(stored: Array) -> Array:
    """Return the real and the imaginary parts of stored complex numbers along a new last axis, others unchanged."""
    return stored[..., np.newaxis].view(stored.real.dtype) if stored.dtype.kind == "c" else stored


def numbers(values: Array) -> Array:
    """Convert decoded integers and booleans to doubles, which may round them."""
    return values if values.dtype.kind in "fc" else values.astype(np.float64)


def encode(values: Array, dtype: str) -> Array:
    """Round doubles once to ``dtype``, to nearest, ties to even. Raise DtypeError for what does not fit.

    An infinity is one in every floating-point type; what is finite must not become one.
    """
    _refuse(np.isnan(values), values, dtype)
    if dtype in ROUNDED:
        stored = rounded(values, dtype)
        back = decode(stored, dtype)
        _refuse(~np.isfinite(back) & np.isfinite(values), values, dtype)
        return stored
    _refuse(np.isinf(values), values, dtype)
    whole = np.rint(values)
    low, high = _limits(dtype)
    _refuse((whole < low) | (whole > high), values, dtype)
    return whole.astype(STORAGE[dtype])


def _limits(dtype: str) -> tuple[float, float]:
    """Return the least and the largest double that the integer type holds."""
    if dtype == "bool":
        return 0.0, 1.0
    info = np.iinfo(STORAGE[dtype])
    high = float(info.max)
    # That of 64 bits is rounded up to a power of two, which does not fit.
    return float(info.min), high if int(high) <= info.max else float(np.nextafter(high, 0.0))


def _refuse(wrong: NDArray[np.bool_], values: Array, dtype: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong.reshape(-1)))
        raise DtypeError(f"element {index} is {values.reshape(-1)[index].item()!r}, which {dtype} cannot hold", index)


def rounded(values: Array, dtype: str) -> Array:
    """Round doubles to nearest even, as stored. Overflow gives infinity, or NaN where the type has no infinity."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype in FLOAT8:
            return _round_float8(values, dtype)
        return _round_bf16(values) if dtype == "bf16" else values.astype(STORAGE[dtype])


@cache
def _codes(dtype: str) -> Doubles:
    """Return the values of all codes of an 8-bit type."""
    return np.array([FLOAT8[dtype].value(code) for code in range(256)])


def _round_float8(values: Doubles, dtype: str) -> NDArray[np.uint8]:
    """Round to nearest, ties to even codes. Overflow gives NaN in a type without infinity."""
    codes = _codes(dtype)[:128]
    finite: Doubles = codes[np.isfinite(codes)]
    # Codes of finite numbers ascend from 0, so that a number's code is its place; halfway lies the next binade's middle.
    most = len(finite) - 1
    beyond = finite[most] + (finite[most] - finite[most - 1])
    size = np.abs(values)
    middle = (finite + np.append(finite[1:], beyond)) / 2
    place = np.searchsorted(middle, size, side="left")
    tie = (place <= most) & (size == middle[np.minimum(place, most)]) & (place % 2 == 1)
    place = place + tie
    # After the largest finite number comes infinity, or NaN; «fnuz» has only the code of -0 for that.
    over, nan = place > most, np.isnan(values)
    negative = np.signbit(values)
    if FLOAT8[dtype].kind == "fnuz":
        negative &= place > 0
        return np.where(over | nan, 0x80, place + 0x80 * negative).astype(np.uint8)
    codes8: NDArray[np.uint8] = (np.where(nan, 0x7F, np.minimum(place, most + 1)) + 0x80 * negative).astype(np.uint8)
    return codes8


def _round_bf16(values: Doubles) -> NDArray[np.uint16]:
    """Round by way of f32 *rounded to odd*: its last bit tells the second rounding that bits were cut."""
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
    """Return how many numbers of ``dtype`` are between each stored element and the rounded golden. NaN counts as 0.

    ``actual`` is as stored, ``expected`` as a golden; for integers this is the difference, for complex numbers the larger of both
    parts' distances.
    """
    if dtype in COMPLEX:
        part = COMPLEX[dtype]
        return np.maximum(
            ulp_distance(actual.real, expected.real, part), ulp_distance(actual.imag, expected.imag, part)
        )
    if dtype not in FLOATS:
        return difference(actual, expected)
    golden = np.asarray(expected, dtype=np.float64)
    nearest = rounded(golden, dtype)
    order = _ordered(nearest, dtype)
    if dtype in FLOAT8 and FLOAT8[dtype].kind == "fnuz":
        # What is too large becomes the code of -0, but is beyond the largest number, not near 0.
        order = np.where(nearest == 0x80, np.where(np.signbit(golden), -0x80, 0x80), order)
    distance = difference(_ordered(actual, dtype), order)
    missing = np.isnan(golden) | np.isnan(np.asarray(decode(actual, dtype), dtype=np.float64))
    return np.where(missing, 0.0, distance)


def _ordered(stored: Array, dtype: str) -> NDArray[np.int64]:
    """Return integers in the order of the floating-point numbers: neighbours differ by one, both zeros are 0."""
    width = STORAGE[dtype].itemsize
    words = np.ascontiguousarray(stored).view(f"<i{width}").astype(np.int64)
    least = -(2 ** (8 * width - 1))
    return np.where(words < 0, np.int64(least) - words, words)


def difference(left: Array, right: Array) -> Doubles:
    """Return |left - right| of integers as doubles, without wrapping; exact up to 2**53, never 0 where they differ."""
    if left.dtype == np.uint64:
        return (np.maximum(left, right) - np.minimum(left, right)).astype(np.float64)
    first, second = left.astype(np.int64), right.astype(np.int64)
    high, low = np.maximum(first, second), np.minimum(first, second)
    return (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)


@dataclass(frozen=True)
class Header:
    """What a ``.npy`` file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[np.generic]


def read_header(file: BinaryIO, size: int) -> Header:
    """Read the header of a ``.npy`` file and check it against the size of the file. Raise ValueError."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not read")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(file)
    except Exception as error:  # noqa: BLE001 - whatever Python's own parser says to a header that is none
        raise ValueError(str(error) or type(error).__name__) from None
    if dtype.hasobject:
        raise ValueError("the file holds Python objects, not numbers")
    try:
        # Sizes below 0, more axes or elements than there can be: a view of nothing takes no memory, and tells.
        np.broadcast_to(np.empty((), dtype=dtype), tuple(map(_size, shape)))
    except ValueError as error:
        raise ValueError(f"no array has the shape {list(shape)}: {error}") from None
    elements = math.prod(shape)
    there, wanted = size - file.tell(), elements * dtype.itemsize
    if there != wanted:
        raise ValueError(f"{'truncated' if there < wanted else 'too long'}: {there} bytes of data, not {wanted}")
    return Header(tuple(shape), fortran, dtype)


def _size(value: int) -> int:
    if isinstance(value, bool) or value < 0:
        raise ValueError(f"{value} is not a size")
    return value


def load_npy(path: str) -> Array:
    """Read a ``.npy`` file of exactly the size in its header, never a pickle. Raise ValueError, OSError.

    A large one is mapped, to be read where it is looked at; it cannot be written to.
    """
    with open(path, "rb") as file:
        header = read_header(file, os.fstat(file.fileno()).st_size)
        order: Literal["C", "F"] = "F" if header.fortran else "C"
        if math.prod(header.shape) * header.dtype.itemsize > MAPPED:
            mapped = np.memmap(path, header.dtype, mode="r", offset=file.tell(), shape=header.shape, order=order)
            return np.asarray(mapped)
        flat = np.fromfile(file, dtype=header.dtype)
    return flat.reshape(header.shape, order=order)


def why_unreadable(error: Exception) -> str:
    """Return the message of an error from reading an array, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def save_npy(path: str, array: Array) -> None:
    """Write ``array`` so that equal arrays give equal bytes."""
    with open(path, "wb") as file:
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        np.lib.format.write_array(file, contiguous, version=(1, 0), allow_pickle=False)


def write_npy(path: str, dtype: np.dtype[np.generic], shape: Sequence[int], blocks: Iterable[Array]) -> None:
    """Write an array from blocks of elements in C order; the bytes are those of :func:`save_npy`."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(shape)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)
