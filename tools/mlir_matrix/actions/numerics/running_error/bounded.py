"""Run a reference on arrays with error bounds, which gives the bound of its results (running error analysis).

A :class:`ErrorBound` is a value in double, as the reference computes it, and a bound on the error that a program may have
there which computes in the output's dtype. Errors are worst cases, not likely ones:

- ``c = a op b`` passes on the errors of both and adds ``u |c|``;
- a sum of *n* terms, in whatever order, adds ``(n - 1) u`` times the sum of their sizes, a product of matrices ``K u |A| |B|``
    (Jeannerod and Rump, Improved error bounds for inner products in floating-point arithmetic, 2013: no term of second order);
- a function passes on ``|f'|`` times the error of its argument and adds what :mod:`accuracy` allows it;
- what moves, compares, negates or takes the larger adds nothing; neither do factors that are powers of two.

A constant that the dtype does not hold is rounded. Decisions (comparisons, argmax, indices) are those of the exact values.
Unknown operations raise ActionFailed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.numerics.dtypes import Array, Doubles, Index
from mlir_matrix.actions.numerics.formats import Format

#: A function of NumPy.
Function: TypeAlias = Callable[..., Any]
#: What a function of NumPy does to these arrays: called with the format and the function's own arguments.
Rule: TypeAlias = Callable[..., Any]
RuleT = TypeVar("RuleT", bound=Rule)
#: What such functions take, and over what they sum.
Operand: TypeAlias = "ErrorBound | ArrayLike"
Axis: TypeAlias = int | tuple[int, ...] | None
#: By function, or by universal function and method: what ``error_bound_functions`` and ``error_bound_ufuncs`` register.
RULES: dict[Function | tuple[np.ufunc, str], Rule] = {}


def rule(*keys: Function | tuple[np.ufunc, str]) -> Callable[[RuleT], RuleT]:
    """Register the rule of some keys of ``RULES``."""

    def register(function: RuleT) -> RuleT:
        RULES.update(dict.fromkeys(keys, function))
        return function

    return register


class ErrorBound(NDArrayOperatorsMixin):
    """``value`` and ``error``, float64 arrays of one shape (views where indexing gives views)."""

    dtype = np.dtype(np.float64)

    def __init__(self, value: ArrayLike, error: ArrayLike, format: Format) -> None:
        self.value: Doubles = np.asarray(value, dtype=np.float64)
        self.error: Doubles = np.asarray(error, dtype=np.float64)
        self.format = format

    def __repr__(self) -> str:
        return f"ErrorBound({self.value!r}, {self.error!r})"

    # What an array has.
    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def T(self) -> ErrorBound:  # noqa: N802 - NumPy's name
        return ErrorBound(self.value.T, self.error.T, self.format)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[ErrorBound]:
        return (self[index] for index in range(len(self.value)))

    def __getitem__(self, key: Index) -> ErrorBound:
        return ErrorBound(self.value[key], self.error[key], self.format)

    def __setitem__(self, key: Index, new: Operand) -> None:
        given = lift(new, self.format)
        self.value[key], self.error[key] = given.value, given.error

    def __array__(self, *args: object, **kwargs: object) -> Doubles:
        raise unknown("a conversion to a plain array")

    def __float__(self) -> float:
        raise unknown("float() or a function outside of NumPy")

    __int__ = __index__ = __float__

    def __bool__(self) -> bool:
        return bool(self.value)

    def __getattr__(self, name: str) -> Function:
        """Return NumPy's function of that name as a method."""
        if name.startswith("_") or not callable(getattr(np.ndarray, name, None)):
            raise AttributeError(name)
        function = getattr(np, name, None)
        if function is None:
            raise unknown(f"the method {name}")
        return lambda *args, **kwargs: function(self, *args, **kwargs)

    def astype(self, dtype: DTypeLike, **_: object) -> ErrorBound | Whole:
        """Convert to another dtype. Conversion to integers or booleans is a decision, by the exact value."""
        new = np.dtype(dtype)
        if new.kind != "f":
            return Whole(self.value.astype(new), self.format)
        rounded = self.value.astype(new).astype(np.float64)
        extra = np.where(self.error > 0, np.finfo(new).eps * np.abs(self.value), 0.0)
        return ErrorBound(rounded, self.error + extra, self.format)

    def reshape(self, *shape: Any, **kwargs: Any) -> ErrorBound:
        return self.each(lambda part: part.reshape(*shape, **kwargs))

    def transpose(self, *axes: Any) -> ErrorBound:
        return self.each(lambda part: part.transpose(*axes))

    def flatten(self) -> ErrorBound:
        return self.each(np.ndarray.flatten)

    def each(self, move: Callable[[Doubles], Doubles]) -> ErrorBound:
        """Move elements and their errors alike."""
        return ErrorBound(move(self.value), move(self.error), self.format)

    # How NumPy asks.
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **kwargs: Any) -> object:
        (target,) = kwargs.pop("out", (None,))
        if (ufunc, method) not in RULES:
            called = "".join(f" with {key}=" for key in kwargs) if method == "__call__" else f".{method}"
            raise unknown(f"numpy.{ufunc.__name__}{called}")
        with np.errstate(all="ignore"):
            result = RULES[ufunc, method](self.format, *inputs, **kwargs)
        if target is None:
            return result
        if not isinstance(target, ErrorBound):
            raise unknown(f"{ufunc.__name__} into a plain array")
        target[...] = result
        return target

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        if function not in RULES:
            raise unknown(f"numpy.{function.__name__}")
        with np.errstate(all="ignore"):
            return RULES[function](self.format, *args, **kwargs)


class Whole(np.ndarray):
    """An array of integers or booleans; its conversion to floating point gives errors.

    ``format`` is the dtype that programs compute in.
    """

    format: Format

    def __new__(cls, values: ArrayLike, format: Format) -> Whole:
        array: Whole = np.asarray(values).view(cls)
        array.format = format
        return array

    def __array_finalize__(self, source: Array | None) -> None:
        self.format = getattr(source, "format", None)  # type: ignore[assignment]

    def astype(self, dtype: DTypeLike, *args: Any, **kwargs: Any) -> ErrorBound | Whole:  # type: ignore[override]
        plain = np.asarray(self).astype(dtype, *args, **kwargs)
        return lift(plain, self.format) if plain.dtype.kind == "f" else Whole(plain, self.format)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **kwargs: Any) -> object:
        if any(isinstance(given, ErrorBound) for given in inputs):
            return NotImplemented
        plain = [np.asarray(given) if isinstance(given, Whole) else given for given in inputs]
        kwargs = {
            key: tuple(np.asarray(each) if isinstance(each, Whole) else each for each in given)
            if key == "out"
            else given
            for key, given in kwargs.items()
        }
        result = getattr(ufunc, method)(*plain, **kwargs)
        if kwargs.get("out"):
            return self
        if isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind == "f":
            return getattr(ufunc, method)(*(lift(given, self.format) for given in plain), **kwargs)
        return Whole(result, self.format) if isinstance(result, np.ndarray) else result


class UnknownBound(ActionFailed):
    """An operation without a known bound."""


def unknown(what: str) -> UnknownBound:
    """Return the error for an operation without a known bound."""
    return UnknownBound(
        f"no error bound is known for {what}; define forward_error(roundoff, ...) in reference.py, which returns it"
    )


def holds(format: Format, values: Doubles) -> NDArray[np.bool_]:
    """Return which values are numbers of a format, leaving the range of its exponents aside."""
    scaled = np.ldexp(np.frexp(values)[0], format.digits)
    held: NDArray[np.bool_] = (scaled == np.rint(scaled)) | ~np.isfinite(values)
    return held


def lift(given: Operand, format: Format) -> ErrorBound:
    """Convert anything to an array with errors. A constant that the dtype does not hold is rounded."""
    if isinstance(given, ErrorBound):
        return given
    value = np.asarray(given, dtype=np.float64)
    return ErrorBound(value, np.where(holds(format, value), 0.0, format.u * np.abs(value)), format)


def roundings_of_sum(format: Format, terms: ArrayLike) -> Doubles:
    """Return how many roundings count for a sum of so many terms: ``n - 1``, or at most ``6 sqrt(n - 1)`` if they are independent.

    The sum is beyond the latter with a probability below 1e-7 (Higham and Mary, 2019).
    """
    more = np.maximum(np.asarray(terms, dtype=np.float64) - 1, 0)
    return np.minimum(more, 6 * np.sqrt(more)) if format.likely else more


def decided(function: Function) -> Rule:
    """Return the rule of a function that decides something, by exact values."""

    def decide(format: Format, *given: Operand, **kwargs: object) -> object:
        plain = (each.value if isinstance(each, ErrorBound) else each for each in given)
        return _whole(function(*plain, **kwargs), format)

    return decide


def _whole(found: object, format: Format) -> object:
    """Return the arrays among results as those whose conversions to floating point have errors, too."""
    if isinstance(found, tuple):
        return tuple(_whole(each, format) for each in found)
    return Whole(found, format) if isinstance(found, np.ndarray) else found


def settle(value: Doubles, passed: Doubles, roundings: float | Doubles, format: Format) -> ErrorBound:
    """Return a result with the errors passed on to it and its own, in units of ``u`` and of its size.

    An infinity is the right one or wrong; what is known of nothing has no bound.
    """
    own = roundings * (format.rounding * (np.abs(value) + passed) + format.least)
    error = np.where(np.isfinite(value), passed + np.where(roundings > 0, own, 0.0), 0.0)
    return ErrorBound(value, np.where(np.isnan(error), np.inf, error), format)
