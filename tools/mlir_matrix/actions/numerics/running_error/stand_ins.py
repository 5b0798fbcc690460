"""Replace ``numpy`` and ``math`` for a reference that runs on arrays with error bounds (:mod:`error_bound`).

Most of NumPy asks its arguments what to do. What makes plain arrays of whatever it is given (``asarray``, ``empty``,
``vectorize``), and all of ``math``, does not ask; these few stand in for it, in the reference's module alone.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.actions.numerics.formats import Format
from mlir_matrix.actions.numerics.running_error.accuracy import FUNCTIONS
from mlir_matrix.actions.numerics.running_error.bounded import ErrorBound, Function, Operand, Whole, lift, unknown
from mlir_matrix.actions.numerics.running_error.ufuncs import evaluate

#: Names of ``math`` that NumPy has by another.
_NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
                "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "fabs": "fabs", "floor": "floor", "ceil": "ceil",
                "trunc": "trunc", "hypot": "hypot"}  # fmt: skip

Names: TypeAlias = Mapping[str, object] | None


@dataclass(frozen=True)
class _Vectorized:
    """A function of numbers that takes arrays as well."""

    function: Function

    def __call__(self, *given: object) -> object:
        return self.function(*given)


class _StandIn(ModuleType):
    """A module in which some names are others."""

    def __init__(self, original: ModuleType, names: Mapping[str, object]) -> None:
        super().__init__(original.__name__)
        self.__dict__.update(names)
        self._original = original

    def __getattr__(self, name: str) -> object:
        return getattr(self._original, name)


class _Maker:
    """NumPy's functions that make arrays, for one format."""

    def __init__(self, format: Format) -> None:
        self._format = format

    def array(
        self, given: Operand, dtype: DTypeLike | None = None, *, copy: bool = True, **kwargs: Any
    ) -> ErrorBound | Array:
        if isinstance(given, (list, tuple)) and _holds_bounded(given):
            given = np.stack([self.array(each) for each in given])
        if not isinstance(given, ErrorBound):
            if dtype is not None and np.dtype(dtype).kind == "f" and isinstance(given, Whole):
                return given.astype(dtype)
            return np.array(given, dtype, copy=copy or None, **{"subok": True, **kwargs})
        if dtype is not None:
            return given.astype(dtype)
        return given.copy() if copy else given

    def asarray(self, given: Operand, dtype: DTypeLike | None = None, **kwargs: Any) -> ErrorBound | Array:
        return self.array(given, dtype, copy=False, **kwargs)

    def filled(self, name: str) -> Function:
        def make(*args: object, **kwargs: object) -> ErrorBound | Array:
            if name == "full" and any(isinstance(given, ErrorBound) for given in args):
                raise unknown("numpy.full of a computed value")
            made: Array = getattr(np, name)(*args, **kwargs)
            return lift(made, self._format) if made.dtype.kind == "f" else made

        return make

    def ndenumerate(self, given: ErrorBound | Array) -> Iterator[tuple[tuple[int, ...], object]]:
        return ((index, given[index]) for index in np.ndindex(given.shape))

    def vectorize(self, function: Function, *args: Any, **kwargs: Any) -> Function:
        if isinstance(function, _Vectorized):
            return function
        plain = np.vectorize(function, *args, **kwargs)

        def each(*given: Operand) -> object:
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


def _holds_bounded(given: object) -> bool:
    if isinstance(given, (list, tuple)):
        return any(_holds_bounded(each) for each in given)
    return isinstance(given, ErrorBound)


def _numpy(format: Format) -> ModuleType:
    make = _Maker(format)
    names: dict[str, object] = {name: make.filled(name) for name in ("empty", "zeros", "ones", "full")}
    names |= dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray"), make.asarray)
    names |= {"array": make.array, "ndenumerate": make.ndenumerate, "vectorize": make.vectorize}
    return _StandIn(np, names)


def _math(format: Format) -> ModuleType:
    def stand_in(name: str) -> Function:
        def function(*given: Operand) -> object:
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

    def fsum(terms: ErrorBound | Iterable[Operand]) -> object:
        if isinstance(terms, ErrorBound):
            return np.sum(terms)
        listed = list(terms)
        if _holds_bounded(listed):
            return np.sum(np.stack([lift(each, format) for each in listed]))
        # It refuses what is no number.
        return math.fsum(listed)  # type: ignore[arg-type]

    callables = [name for name in dir(math) if callable(getattr(math, name)) and not name.startswith("_")]
    return _StandIn(math, {**{name: stand_in(name) for name in callables}, "fsum": fsum})


def names(format: Format) -> dict[str, object]:
    """Return the names that a reference's module starts with, so that its imports give the stand-ins."""
    stand_ins = {"numpy": _numpy(format), "math": _math(format)}

    def load(
        name: str, globals: Names = None, locals: Names = None, fromlist: Sequence[str] = (), level: int = 0
    ) -> ModuleType:
        found = builtins.__import__(name, globals, locals, fromlist, level)
        top = name.partition(".")[0] if not fromlist else name
        return stand_ins.get(top, found) if level == 0 else found

    return {"__builtins__": {**vars(builtins), "__import__": load}}
