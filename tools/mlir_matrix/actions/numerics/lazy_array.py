"""Give a large input to references as an array of doubles whose elements are converted on access.

An embedding lookup of a few rows need not convert a table of gigabytes. Indexing and ``take`` convert what they select; all
else converts the whole array, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import Array, Index


class LazyDoubles(np.lib.mixins.NDArrayOperatorsMixin):
    """Stored elements of a floating-point type, seen as float64."""

    dtype = np.dtype(np.float64)

    def __init__(self, stored: Array, stored_as: str) -> None:
        self._stored, self._stored_as = stored, stored_as
        self._all: Array | None = None
        self.shape, self.ndim, self.size = stored.shape, stored.ndim, stored.size

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: Index) -> Array:
        return dtypes.decode(self._stored[index], self._stored_as)

    def take(
        self, indices: int | Array, axis: int | None = None, mode: Literal["raise", "wrap", "clip"] = "raise"
    ) -> Array:
        """Select elements as ``numpy.take`` does."""
        return dtypes.decode(np.take(self._stored, indices, axis=axis, mode=mode), self._stored_as)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if self._all is None:
            self._all = dtypes.decode(self._stored, self._stored_as)
        return self._all if dtype is None else self._all.astype(dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        return getattr(ufunc, method)(*map(_whole, inputs), **options)

    def __array_function__(
        self, function: Callable[..., object], _types: object, given: Sequence[Any], options: Mapping[str, Any]
    ) -> object:
        if function is np.take and given[0] is self and "out" not in options:
            return self.take(*given[1:], **options)
        return function(*map(_whole, given), **{name: _whole(value) for name, value in options.items()})

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            # NumPy asks for other protocols first, in which the array would be converted to answer.
            raise AttributeError(name)
        return getattr(self.__array__(), name)


def _whole(value: object) -> object:
    """Convert an argument, or the items of a list or tuple."""
    if isinstance(value, LazyDoubles):
        return value.__array__()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_whole, value))
    return value
