"""Call a kernel of a shared object through memref descriptors, with a fixed number of OpenMP's threads."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from mlir_matrix.actions.api import Action, ActionFailed, MachineFailed, library

Array = numpy.ndarray[Any, Any]

DTYPES = {
    "f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
    "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?", "c64": "c8", "c128": "c16",
}  # fmt: skip
#: Threads that a machine of any size starts.
MOST = 1024


def run(action: Action) -> None:
    """Read ``artifact`` and ``arg-…``, write ``out-…``."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    runtime = ctypes.CDLL(library("libomp.so.5"), mode=ctypes.RTLD_GLOBAL)
    try:
        kernel = ctypes.CDLL(action.inputs["artifact"])
    except OSError as error:
        raise ActionFailed(f"the shared object does not load: {error}") from error
    threads = action.params["parameters"]["threads"]
    if not 1 <= threads <= MOST:
        raise ActionFailed(f"threads is {threads}; expected 1 to {MOST}")
    runtime.omp_set_dynamic(0)
    runtime.omp_set_num_threads(threads)
    if runtime.omp_get_max_threads() != threads:
        raise MachineFailed(f"OpenMP's runtime gives {runtime.omp_get_max_threads()} threads instead of {threads}")
    arrays = [numpy.load(action.inputs[f"arg-{each['name']}"]) for each in action.params["arguments"]]
    results = action.params["results"]
    words = [3 + 2 * len(each["shape"]) for each in results]
    returned = (ctypes.c_int64 * sum(words))()
    kernel._mlir_ciface_main(returned, *(descriptor(array) for array in arrays))
    place = 0
    for each, count in zip(results, words, strict=True):
        array = described(returned[place : place + count], numpy.dtype(DTYPES[each["dtype"]]))
        numpy.save(action.outputs[f"out-{each['name']}"], array)
        place += count


def descriptor(array: Array) -> Any:
    """Return the descriptor of an array that lies row by row."""
    strides = [stride // array.itemsize for stride in array.strides]
    words = [array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides]
    return (ctypes.c_int64 * len(words))(*words)


def described(words: list[int], dtype: numpy.dtype[Any]) -> Array:
    """Return a copy of what a descriptor describes."""
    rank = (len(words) - 3) // 2
    shape, strides = words[3 : 3 + rank], words[3 + rank :]
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if all(shape) else -1
    flat = numpy.frombuffer(ctypes.string_at(words[1] + words[2] * dtype.itemsize, (last + 1) * dtype.itemsize), dtype)
    return numpy.lib.stride_tricks.as_strided(flat, shape, [stride * dtype.itemsize for stride in strides]).copy()
