"""Rules of NumPy's functions for arrays with error bounds: sums, products, moves and decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mlir_matrix.actions.numerics.dtypes import Array, Doubles
from mlir_matrix.actions.numerics.formats import Format
from mlir_matrix.actions.numerics.running_error.bounded import (
    RULES,
    Axis,
    ErrorBound,
    Function,
    Operand,
    Rule,
    decided,
    lift,
    roundings_of_sum,
    rule,
    settle,
    unknown,
)


def multilinear(product: Callable[..., Doubles], *parts: ErrorBound) -> ErrorBound:
    """Sum products of one element of each part: matmul, einsum, convolution.

    The same product of ones gives the number of terms of each sum.
    """
    sizes = [np.abs(part.value) for part in parts]
    reach = [size + part.error for size, part in zip(sizes, parts, strict=True)]
    passed = np.asarray(0.0)
    for place, part in enumerate(parts):
        if part.error.any():
            passed = passed + product(*reach[:place], part.error, *sizes[place + 1 :])
    terms = product(*(np.ones(part.shape) for part in parts))
    format = parts[0].format
    value = np.asarray(product(*(part.value for part in parts)))
    roundings = roundings_of_sum(format, terms) + len(parts) - 1
    own = roundings * (format.rounding * product(*reach) + format.least)
    return settle(value, passed + own, 0, format)


def _count(shape: tuple[int, ...], axis: Axis) -> int:
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    return math.prod(shape[int(place)] for place in axes)


@rule(np.sum, (np.add, "reduce"))
def _sum(
    format: Format,
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: bool = False,
) -> ErrorBound:
    _only_double(dtype, out)
    part = lift(a, format)

    def total(values: Doubles) -> Doubles:
        return np.asarray(np.sum(values, axis=axis, keepdims=keepdims))

    value, passed = total(part.value), total(part.error)
    own = roundings_of_sum(format, _count(part.shape, axis)) * format.rounding * total(np.abs(part.value) + part.error)
    return settle(value, passed + own, 0, format)


@rule(np.mean)
def _mean(
    format: Format,
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: bool = False,
) -> ErrorBound:
    part = lift(a, format)
    return lift(_sum(format, part, axis, dtype, out, keepdims) / float(_count(part.shape, axis)), format)


@rule(np.var)
def _variance(
    format: Format,
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> ErrorBound:
    part = lift(a, format)
    apart = part - _mean(format, part, axis, dtype, out, True)
    return lift(_sum(format, apart * apart, axis, keepdims=keepdims) / float(_count(part.shape, axis) - ddof), format)


@rule(np.std)
def _deviation(
    format: Format,
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> ErrorBound:
    return lift(np.sqrt(_variance(format, a, axis, dtype, out, ddof, keepdims)), format)


@rule(np.prod, (np.multiply, "reduce"))
def _product(
    format: Format,
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: bool = False,
) -> ErrorBound:
    """Multiply one factor after the other: n - 1 roundings in any order."""
    _only_double(dtype, out)
    part = lift(a, format)
    if not isinstance(axis, (int, type(None))):
        raise unknown("numpy.prod of several axes")
    rows = part.reshape(-1) if axis is None else part.each(lambda values: np.moveaxis(values, axis, 0))
    total = lift(np.ones(rows.shape[1:]), format)
    for row in rows:
        total = lift(total * row, format)
    shape = (1,) * part.ndim if axis is None else np.sum(part.value, axis=axis, keepdims=True).shape
    return total.reshape(shape) if keepdims else total


@rule(np.max, np.amax, (np.maximum, "reduce"))
def _largest(
    format: Format,
    a: Operand,
    axis: Axis = None,
    out: object = None,
    keepdims: bool = False,
    initial: float | None = None,
) -> ErrorBound:
    """Return the largest error among the elements that may be the largest."""
    _only_double(None, out)
    part = lift(a, format)
    if initial is not None:
        part = lift(np.maximum(part, initial), format)
    value = np.max(part.value, axis=axis, keepdims=True)
    floor = np.max(part.value - part.error, axis=axis, keepdims=True)
    near = part.value + part.error >= floor
    error = np.max(part.error, axis=axis, keepdims=True, where=near, initial=0.0)
    whole = ErrorBound(value, error, format)
    axes = None if axis is None else tuple(int(place) for place in np.atleast_1d(axis))
    return whole if keepdims else whole.each(lambda values: np.squeeze(values, axis=axes))


@rule(np.min, np.amin, (np.minimum, "reduce"))
def _least(
    format: Format,
    a: Operand,
    axis: Axis = None,
    out: object = None,
    keepdims: bool = False,
    initial: float | None = None,
) -> ErrorBound:
    return lift(-_largest(format, -lift(a, format), axis, out, keepdims, None if initial is None else -initial), format)


@rule(np.cumsum, (np.add, "accumulate"))
def _cumsum(
    format: Format, a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: object = None
) -> ErrorBound:
    _only_double(dtype, out)
    part = lift(a, format)
    if axis is None:
        part, axis = part.reshape(-1), 0
    before = roundings_of_sum(format, np.cumsum(np.ones_like(part.value), axis=axis))
    own = before * format.rounding * np.cumsum(np.abs(part.value) + part.error, axis=axis)
    return settle(np.cumsum(part.value, axis=axis), np.cumsum(part.error, axis=axis) + own, 0, format)


@rule((np.maximum, "accumulate"))
def _running_largest(format: Format, a: Operand, axis: int = 0) -> ErrorBound:
    part = lift(a, format)
    return ErrorBound(np.maximum.accumulate(part.value, axis), np.maximum.accumulate(part.error, axis), format)


def _only_double(dtype: DTypeLike | None, out: object) -> None:
    if out is not None or (dtype is not None and np.dtype(dtype) != np.float64):
        raise unknown("a reduction with dtype= or out=")


@rule(np.sort)
def _sort(format: Format, a: Operand, axis: int = -1, **kwargs: Any) -> ErrorBound:
    """Sort; the k-th element moves by no more than the one that moves most."""
    part = lift(a, format)
    most = np.max(part.error, axis=axis, keepdims=True)
    value = np.sort(part.value, axis=axis, **kwargs)
    return ErrorBound(value, np.broadcast_to(most, value.shape).copy(), format)


@rule(np.where)
def _where(format: Format, condition: ArrayLike, *both: Operand) -> ErrorBound | tuple[NDArray[np.intp], ...]:
    if not both:
        return np.nonzero(np.asarray(condition))
    left, right = (lift(given, format) for given in both)
    return ErrorBound(
        np.where(condition, left.value, right.value), np.where(condition, left.error, right.error), format
    )


@rule(np.pad)
def _pad(format: Format, a: Operand, widths: Any, mode: str = "constant", **kwargs: Any) -> ErrorBound:
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise unknown(f"numpy.pad with mode {mode!r}")
    part = lift(a, format)
    filled = kwargs.pop("constant_values", 0.0)
    if mode != "constant":
        return part.each(lambda values: np.pad(values, widths, mode, **kwargs))  # type: ignore[call-overload]
    filling = lift(filled, format)
    return ErrorBound(
        np.pad(part.value, widths, constant_values=filling.value),
        np.pad(part.error, widths, constant_values=filling.error),
        format,
    )


@rule(np.clip)
def _clip(
    format: Format, a: Operand, a_min: Operand | None = None, a_max: Operand | None = None, **kwargs: Operand | None
) -> ErrorBound:
    low, high = kwargs.pop("min", a_min), kwargs.pop("max", a_max)
    if kwargs:
        raise unknown("numpy.clip with out=")
    part = lift(a, format)
    if low is not None:
        part = lift(np.maximum(part, low), format)
    if high is not None:
        part = lift(np.minimum(part, high), format)
    return part


@rule(np.round)
def _round(format: Format, a: Operand, decimals: int = 0) -> ErrorBound:
    if decimals:
        raise unknown("numpy.round to decimals")
    return lift(np.rint(lift(a, format)), format)


@rule(np.linalg.norm)
def _norm(
    format: Format, x: Operand, ord: int | str | None = None, axis: Axis = None, keepdims: bool = False
) -> ErrorBound:
    if ord not in (None, 2, "fro"):
        raise unknown(f"numpy.linalg.norm with ord {ord!r}")
    part = lift(x, format)
    return lift(np.sqrt(_sum(format, part * part, axis, keepdims=keepdims)), format)


@rule(np.einsum)
def _einsum(format: Format, subscripts: object, *operands: Operand, **_: object) -> ErrorBound:
    if not isinstance(subscripts, str):
        raise unknown("numpy.einsum without subscripts as text")
    parts = [lift(operand, format) for operand in operands]
    return multilinear(lambda *arrays: np.asarray(np.einsum(subscripts, *arrays)), *parts)


def _bilinear(function: Function) -> Rule:
    def derived(format: Format, a: Operand, b: Operand, *args: object, **kwargs: object) -> ErrorBound:
        return multilinear(
            lambda left, right: np.asarray(function(left, right, *args, **kwargs)), lift(a, format), lift(b, format)
        )

    return derived


def _moved(function: Function) -> Rule:
    def derived(format: Format, a: Operand, *args: object, **kwargs: object) -> ErrorBound | Sequence[ErrorBound]:
        part = lift(a, format)
        value, error = (function(each, *args, **kwargs) for each in (part.value, part.error))
        if isinstance(value, (list, tuple)):
            return [ErrorBound(*each, format) for each in zip(value, error, strict=True)]
        return ErrorBound(value, error, format)

    return derived


def _joined(function: Function) -> Rule:
    def derived(format: Format, arrays: Sequence[Operand], *args: object, **kwargs: object) -> ErrorBound:
        parts = [lift(array, format) for array in arrays]
        value = function([part.value for part in parts], *args, **kwargs)
        return ErrorBound(value, function([part.error for part in parts], *args, **kwargs), format)

    return derived


def _filled(function: Function) -> Rule:
    def derived(format: Format, a: ErrorBound, *args: object, **kwargs: object) -> ErrorBound | Array:
        made = function(a.value, *args, **kwargs)
        return lift(made, format) if made.dtype.kind == "f" else made

    return derived


_MOVES = (
    np.transpose, np.permute_dims, np.matrix_transpose, np.reshape, np.ravel, np.squeeze, np.expand_dims, np.moveaxis,
    np.swapaxes, np.rollaxis, np.roll, np.flip, np.flipud, np.fliplr, np.rot90, np.tile, np.repeat, np.broadcast_to,
    np.take, np.take_along_axis, np.diagonal, np.diag, np.tril, np.triu, np.copy, np.atleast_1d, np.atleast_2d,
    np.atleast_3d, np.delete, np.split, np.array_split, np.hsplit, np.vsplit, np.unstack, np.compress, np.resize,
    sliding_window_view,
)  # fmt: skip
_JOINS = (np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack)
_DECISIONS = (
    np.argmax, np.argmin, np.argsort, np.argpartition, np.searchsorted, np.nonzero, np.flatnonzero, np.count_nonzero,
    np.any, np.all, np.shape, np.ndim, np.size, np.array_equal, np.isclose, np.allclose, np.iscomplexobj,
)  # fmt: skip
_PRODUCTS = (np.dot, np.inner, np.outer, np.tensordot, np.vdot, np.convolve, np.correlate, np.kron)

_FILLS = (np.zeros_like, np.empty_like, np.ones_like, np.full_like)
_MADE: tuple[tuple[Callable[[Function], Rule], tuple[Function, ...]], ...] = (
    (_moved, _MOVES),
    (_joined, _JOINS),
    (decided, _DECISIONS),
    (_bilinear, _PRODUCTS),
    (_filled, _FILLS),
)
for _make, _functions in _MADE:
    RULES.update((_function, _make(_function)) for _function in _functions)
RULES[np.multiply, "outer"] = _bilinear(np.multiply.outer)
