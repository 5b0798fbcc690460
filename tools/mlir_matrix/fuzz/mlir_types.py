"""Types and constants as MLIR writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mlir_matrix.fuzz.values import BOOL, ProgramValue, TensorType

#: The bits of the smallest and the largest number of each format.
_INFINITIES = {"f64": "0x7FF0000000000000", "f32": "0x7F800000", "f16": "0x7C00", "bf16": "0x7F80"}
_NEGATIVE = {"f64": "0xFFF0000000000000", "f32": "0xFF800000", "f16": "0xFC00", "bf16": "0xFF80"}


def scalar(type: TensorType) -> str:
    """Return MLIR's name of the element type."""
    return "i1" if type.dtype == BOOL else type.dtype


def tensor(type: TensorType, dynamic: Collection[int] = ()) -> str:
    """Return the type in MLIR. ``dynamic``: sizes that are ``?`` there."""
    sizes = ("?" if size in dynamic else str(size) for size in type.shape)
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{scalar(type)}>"


def tensors(values: Iterable[ProgramValue]) -> str:
    """Return the types of values in MLIR."""
    return ", ".join(tensor(value.type) for value in values)


def number(value: float, type: TensorType) -> str:
    """Return a constant as MLIR writes it."""
    return repr(float(value)) if type.is_float else str(int(value))


def vector(type: TensorType) -> str:
    """Return the type of a vector with the elements of a tensor."""
    return tensor(type).replace("tensor", "vector")


def extreme(type: TensorType, which: str) -> tuple[str, str]:
    """Return the start of a reduction to the largest or smallest element, and the operation."""
    if type.is_float:
        return (_NEGATIVE if which == "max" else _INFINITIES)[type.dtype], f"arith.{which}imumf"
    return ("-2147483648" if which == "max" else "2147483647"), f"arith.{which}si"
