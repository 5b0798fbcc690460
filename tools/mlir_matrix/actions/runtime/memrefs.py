"""Pass arrays to code that MLIR compiled, and read what it returns, by memref descriptors in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.contract import Action, Role
from mlir_matrix.actions.numerics.formats import FRAMEWORK_NAMES

if TYPE_CHECKING:
    # Most tools run in environments without it.
    import numpy

    Array = numpy.ndarray[Any, Any]


def storage_type(dtype: str) -> numpy.dtype[Any]:
    """Return the type in which NumPy has the elements of a dtype: for bf16, a word with its bits."""
    import numpy

    return numpy.dtype("uint16" if dtype == "bf16" else FRAMEWORK_NAMES[dtype])


def call_main(action: Action[Any], shared: ctypes.CDLL) -> None:
    """Call ``_mlir_ciface_main`` of a shared object with ``arg-…`` of a target's action, and write ``out-…``."""
    import numpy

    arrays = [numpy.load(action.inputs[Role.ARGUMENT.of(each["name"])]) for each in action.params["arguments"]]
    results = action.params["results"]
    words = [3 + 2 * len(each["shape"]) for each in results]
    returned = (ctypes.c_int64 * sum(words))()
    shared._mlir_ciface_main(returned, *(descriptor(array) for array in arrays))
    place = 0
    for each, count in zip(results, words, strict=True):
        array = view(returned[place : place + count], storage_type(each["dtype"]))
        numpy.save(action.outputs[Role.RESULT.of(each["name"])], array)
        place += count


def descriptor(array: Array) -> Any:
    """Return the descriptor of an array that lies row by row."""
    strides = [stride // array.itemsize for stride in array.strides]
    words = [array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides]
    return (ctypes.c_int64 * len(words))(*words)


def view(words: Sequence[int], dtype: numpy.dtype[Any]) -> Array:
    """Return the memory that a descriptor describes, as an array that can be written."""
    import numpy

    rank = (len(words) - 3) // 2
    shape, strides = words[3 : 3 + rank], words[3 + rank :]
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if all(shape) else -1
    count = (last + 1) * dtype.itemsize
    memory = (ctypes.c_char * count).from_address(words[1] + words[2] * dtype.itemsize)
    flat = numpy.frombuffer(memoryview(memory), dtype)
    return numpy.lib.stride_tricks.as_strided(flat, shape, [stride * dtype.itemsize for stride in strides])
