"""Replace ``numpy`` and ``math`` for a reference that runs on arrays with error bounds (:mod:`error_bound`).

Most of NumPy asks its arguments what to do. What makes plain arrays of whatever it is given (``asarray``, ``empty``,
``vectorize``), and all of ``math``, does not ask; these few stand in for it, in the reference's module alone.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from mlir_matrix.actions.numerics.formats import Format
from mlir_matrix.actions.numerics.running_error.accuracy import FUNCTIONS
from mlir_matrix.actions.numerics.running_error.bounded import ErrorBound, lift, unknown
from mlir_matrix.actions.numerics.running_error.ufuncs import evaluate

#: Names of ``math`` that NumPy has by another.
_NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
                "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "fabs": "fabs", "floor": "floor", "ceil": "ceil",
                "trunc": "trunc", "hypot": "hypot"}  # fmt: skip


class Whole(np.ndarray):
    """An array of integers or booleans; its conversion to floating point gives errors.

    ``format`` is the dtype that programs compute in.
    """

    format: Format

    def __new__(cls, values: Any, format: Format) -> Whole:
        array: Whole = np.asarray(values).view(cls)
        array.format = format
        return array

    def __array_finalize__(self, source: Any) -> None:
        self.format = getattr(source, "format", None)  # type: ignore[assignment]

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        plain = np.asarray(self).astype(dtype, *args, **kwargs)
        return lift(plain, self.format) if plain.dtype.kind == "f" else Whole(plain, self.format)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
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


@dataclass(frozen=True)
class _Vectorized:
    """A function of numbers that takes arrays as well."""

    function: Callable[..., Any]

    def __call__(self, *given: Any) -> Any:
        return self.function(*given)


class _StandIn(ModuleType):
    """A module in which some names are others."""

    def __init__(self, original: ModuleType, names: dict[str, Any]) -> None:
        super().__init__(original.__name__)
        self.__dict__.update(names)
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class _Maker:
    """NumPy's functions that make arrays, for one format."""

    def __init__(self, format: Format) -> None:
        self._format = format

    def array(self, given: Any, dtype: Any = None, *, copy: bool = True, **kwargs: Any) -> Any:
        if isinstance(given, (list, tuple)) and _holds_bounded(given):
            given = np.stack([self.array(each) for each in given])
        if not isinstance(given, ErrorBound):
            if dtype is not None and np.dtype(dtype).kind == "f" and isinstance(given, Whole):
                return given.astype(dtype)
            return np.array(given, dtype, copy=copy or None, **{"subok": True, **kwargs})
        if dtype is not None:
            return given.astype(dtype)
        return given.copy() if copy else given

    def asarray(self, given: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return self.array(given, dtype, copy=False, **kwargs)

    def filled(self, name: str) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            if name == "full" and any(isinstance(given, ErrorBound) for given in args):
                raise unknown("numpy.full of a computed value")
            made = getattr(np, name)(*args, **kwargs)
            return lift(made, self._format) if made.dtype.kind == "f" else made

        return make

    def ndenumerate(self, given: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        return ((index, given[index]) for index in np.ndindex(given.shape))

    def vectorize(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(function, _Vectorized):
            return function
        plain = np.vectorize(function, *args, **kwargs)

        def each(*given: Any) -> Any:
            if not _holds_bounded(given):
                return plain(*given)
            parts = np.broadcast_arrays(*(lift(one, self._format).value for one in given))
            errors = np.broadcast_arrays(*(lift(one, self._format).error for one in given))
            made = lift(np.empty(parts[0].shape), self._format)
            for index in np.ndindex(made.shape):
                made[index] = function(
                    *(ErrorBound(v[index], e[index], self._format) for v, e in zip(parts, errors, strict=True))
                )
            return made

        return each


def _holds_bounded(given: Any) -> bool:
    if isinstance(given, (list, tuple)):
        return any(_holds_bounded(each) for each in given)
    return isinstance(given, ErrorBound)


def _numpy(format: Format) -> ModuleType:
    make = _Maker(format)
    names: dict[str, Any] = {name: make.filled(name) for name in ("empty", "zeros", "ones", "full")}
    names |= dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray"), make.asarray)
    names |= {"array": make.array, "ndenumerate": make.ndenumerate, "vectorize": make.vectorize}
    return _StandIn(np, names)


def _math(format: Format) -> ModuleType:
    def stand_in(name: str) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            if not _holds_bounded(given):
                return getattr(math, name)(*given)
            called = _NUMPY_NAMES.get(name, name)
            if called in FUNCTIONS:
                with np.errstate(all="ignore"):
                    return evaluate(FUNCTIONS[called], *(lift(each, format) for each in given))
            if called not in _NUMPY_NAMES.values():
                raise unknown(f"math.{name}")
            return getattr(np, called)(*given)

        # It takes arrays, too.
        return _Vectorized(function)

    def fsum(terms: Any) -> Any:
        listed = terms if isinstance(terms, ErrorBound) else list(terms)
        if not _holds_bounded(listed):
            return math.fsum(listed)
        return np.sum(listed if isinstance(listed, ErrorBound) else np.stack([lift(each, format) for each in listed]))

    callables = [name for name in dir(math) if callable(getattr(math, name)) and not name.startswith("_")]
    return _StandIn(math, {**{name: stand_in(name) for name in callables}, "fsum": fsum})


def names(format: Format) -> dict[str, Any]:
    """Return the names that a reference's module starts with, so that its imports give the stand-ins."""
    stand_ins = {"numpy": _numpy(format), "math": _math(format)}

    def load(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        found = builtins.__import__(name, globals, locals, fromlist, level)
        top = name.partition(".")[0] if not fromlist else name
        return stand_ins.get(top, found) if level == 0 else found

    return {"__builtins__": {**vars(builtins), "__import__": load}}
