"""Rules of NumPy's elementwise functions for arrays with error bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics.dtypes import Doubles
from mlir_matrix.actions.numerics.formats import Format
from mlir_matrix.actions.numerics.running_error.accuracy import ANGLE, FUNCTIONS, HYPOTENUSE, POWER, FunctionAccuracy
from mlir_matrix.actions.numerics.running_error.bounded import (
    RULES,
    ErrorBound,
    Operand,
    decided,
    lift,
    settle,
    unknown,
)
from mlir_matrix.actions.numerics.running_error.functions import multilinear


def _elementwise(*ufuncs: np.ufunc) -> Callable[[Callable[..., ErrorBound]], Callable[..., ErrorBound]]:
    """Register the rule of some universal functions; it takes arrays with errors and no options."""

    def register(function: Callable[..., ErrorBound]) -> Callable[..., ErrorBound]:
        def call(name: str, format: Format, *inputs: Operand, **kwargs: object) -> ErrorBound:
            if kwargs:
                raise unknown(f"numpy.{name}" + "".join(f" with {key}=" for key in kwargs))
            return function(*(lift(given, format) for given in inputs))

        RULES.update(((ufunc, "__call__"), partial(call, ufunc.__name__)) for ufunc in ufuncs)
        return function

    return register


def _factor(part: ErrorBound) -> NDArray[np.bool_]:
    """Return where a number is 0 or exactly a power of two, so that products with it are exact."""
    exact: NDArray[np.bool_] = part.error == 0
    return exact & np.isin(np.abs(np.frexp(part.value)[0]), (0.0, 0.5))


def _nothing(part: ErrorBound) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = (part.value == 0) & (part.error == 0)
    return known


def _times(error: Doubles, slope: Doubles) -> Doubles:
    return np.where(error == 0, 0.0, error * slope)


@_elementwise(np.add)
def _add(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    own = np.where(_nothing(a) | _nothing(b), 0, 1)
    return settle(a.value + b.value, a.error + b.error, own, a.format)


@_elementwise(np.negative)
def _negative(a: ErrorBound) -> ErrorBound:
    return ErrorBound(-a.value, a.error, a.format)


@_elementwise(np.subtract)
def _subtract(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    return _add(a, _negative(b))


@_elementwise(np.multiply)
def _multiply(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    left, right = np.abs(a.value), np.abs(b.value)
    passed = _times(a.error, right + b.error) + _times(b.error, left)
    return settle(a.value * b.value, passed, np.where(_factor(a) | _factor(b), 0, 1), a.format)


@_elementwise(np.divide)
def _divide(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    """Divide. Programs may multiply by the rounded reciprocal, as they do for constants and after ``rsqrt``.

    What overflows in the dtype divides to 0.
    """
    value = a.value / b.value
    room = np.abs(b.value) - b.error
    passed = np.where(room > 0, (a.error + _times(b.error, np.abs(value))) / room, np.inf)
    passed = np.where((a.error == 0) & (b.error == 0), 0.0, passed)
    over = np.abs(b.value) > a.format.largest
    passed = np.where(over, (np.abs(a.value) + a.error) / a.format.largest, passed)
    own = np.where(_factor(b) | _nothing(a), 0, 2)
    return settle(value, passed, own, a.format)


@_elementwise(np.power, np.float_power)
def _power(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    value = np.power(a.value, b.value)
    away = -np.log1p(-np.minimum(a.error / np.abs(a.value), 1.0))
    away = np.where(a.error == 0, 0.0, away)
    exponent = _times(away, np.abs(b.value)) + _times(b.error, np.abs(np.log(np.abs(a.value))) + away)
    passed = _times(np.expm1(exponent), np.abs(value))
    # Around 0 whole powers still have a bound.
    whole = (b.error == 0) & (b.value >= 1) & (b.value == np.rint(b.value))
    span = np.power(np.abs(a.value) + a.error, b.value) + np.abs(value)
    passed = np.where(whole & (a.error >= np.abs(a.value)) & (a.error > 0), span, passed)
    # A square is one product; nothing is computed for the powers 0 and 1.
    own = np.select([np.isin(b.value, (0, 1)), np.isin(b.value, (-1, 2))], [0.0, 1.0], 2 * POWER)
    return settle(value, passed, np.where(b.error == 0, own, 2 * POWER), a.format)


@_elementwise(np.maximum, np.fmax)
def _larger(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    """Return the error of the larger one, or of either where their errors leave that open."""
    error = np.where(a.value - a.error > b.value + b.error, a.error, np.maximum(a.error, b.error))
    error = np.where(b.value - b.error > a.value + a.error, b.error, error)
    return ErrorBound(np.maximum(a.value, b.value), error, a.format)


@_elementwise(np.minimum, np.fmin)
def _smaller(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    return _negative(_larger(_negative(a), _negative(b)))


@_elementwise(np.hypot)
def _hypot(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    return settle(np.hypot(a.value, b.value), np.hypot(a.error, b.error), 2 * HYPOTENUSE, a.format)


@_elementwise(np.arctan2)
def _arctan2(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    room = np.hypot(a.value, b.value) - np.hypot(a.error, b.error)
    passed = _times(np.hypot(a.error, b.error), np.where(room > 0, 1 / room, np.inf))
    return settle(np.arctan2(a.value, b.value), passed, 2 * ANGLE, a.format)


def evaluate(function: FunctionAccuracy, a: ErrorBound) -> ErrorBound:
    """Apply a function; its slope is that of the steepest place within the error."""
    value = function.compute(a.value)
    low, high = a.value - a.error, a.value + a.error
    places = [a.value, low, high, *([np.clip(function.peak(a.value), low, high)] if function.peak else [])]
    slope = np.max([np.nan_to_num(function.slope(place), nan=np.inf, posinf=np.inf) for place in places], axis=0)
    passed = _times(a.error, slope)
    if function.limit is not None:
        passed = np.minimum(passed, np.where(a.error == 0, 0.0, function.limit(a.error)))
    return settle(value, passed, function.roundings, a.format)


def _staircase(ufunc: np.ufunc) -> Callable[[ErrorBound], ErrorBound]:
    """Return the rule of a step function: exact where no step is within the error."""

    def rule(a: ErrorBound) -> ErrorBound:
        value = ufunc(a.value)
        reach = np.maximum(ufunc(a.value + a.error) - value, value - ufunc(a.value - a.error))
        return ErrorBound(value, np.where(a.error == 0, 0.0, reach), a.format)

    return rule


@_elementwise(np.square)
def _square(a: ErrorBound) -> ErrorBound:
    return _multiply(a, a)


@_elementwise(np.reciprocal)
def _reciprocal(a: ErrorBound) -> ErrorBound:
    return _divide(lift(1.0, a.format), a)


@_elementwise(np.positive)
def _positive(a: ErrorBound) -> ErrorBound:
    return ErrorBound(a.value.copy(), a.error.copy(), a.format)


@_elementwise(np.absolute, np.fabs)
def _absolute(a: ErrorBound) -> ErrorBound:
    return ErrorBound(np.abs(a.value), a.error, a.format)


@_elementwise(np.matmul)
def _matmul(a: ErrorBound, b: ErrorBound) -> ErrorBound:
    return multilinear(np.matmul, a, b)


def _evaluated(function: FunctionAccuracy) -> Callable[[ErrorBound], ErrorBound]:
    return lambda a: evaluate(function, a)


_STEPS = (np.floor, np.ceil, np.rint, np.trunc, np.sign)
_DECISIONS = (
    np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.isnan, np.isinf, np.isfinite,
    np.signbit, np.logical_and, np.logical_or, np.logical_not, np.logical_xor,
)  # fmt: skip

for _name, _function in FUNCTIONS.items():
    _ufunc = getattr(np, _name, None)
    if isinstance(_ufunc, np.ufunc) and (_ufunc, "__call__") not in RULES:
        _elementwise(_ufunc)(_evaluated(_function))
for _step in _STEPS:
    _elementwise(_step)(_staircase(_step))
RULES.update({(_ufunc, "__call__"): decided(_ufunc) for _ufunc in _DECISIONS})
