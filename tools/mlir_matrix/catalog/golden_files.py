"""What goldens are called, and in which form an output's is kept: whole, or as a sketch where it is large."""

from __future__ import annotations

import math

from mlir_matrix.catalog.models.base import Output, Workload

WHOLE, SKETCH = ".npy", ".sketch.npy"
#: A whole golden may have this many bytes: a repository has to hold all of them.
LARGEST_WHOLE = 1 << 20
#: And all goldens of a catalog this many.
LARGEST_TREE = 20_000_000
#: Bytes of an element as goldens hold it: floating point is double there.
_BYTES = {"i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}


def is_sketched(workload: Workload, output: Output) -> bool:
    """Whether what is expected of an output is kept, and is too large to be kept whole."""
    if workload.golden == "computed":
        return False
    sizes = (size if isinstance(size, int) else workload.dims[size] for size in output.shape)
    return math.prod(sizes) * _BYTES.get(output.dtype, 8) > LARGEST_WHOLE


def golden_name(workload: Workload, name: str) -> str:
    """The file in ``golden/WORKLOAD/`` that an output is judged by."""
    return name + (SKETCH if is_sketched(workload, workload.outputs[name]) else WHOLE)


def other_name(workload: Workload, name: str) -> str:
    """The file that it would be in the other form."""
    return name + (WHOLE if is_sketched(workload, workload.outputs[name]) else SKETCH)
