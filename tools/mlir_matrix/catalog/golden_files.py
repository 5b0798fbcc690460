"""Name the golden files of outputs, whole arrays or sketches of large ones, and record what they were made from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.digest import digest_file, digest_value
from mlir_matrix.catalog.folders import Item
from mlir_matrix.catalog.models.base import Output, Workload

WHOLE, SKETCH = ".npy", ".sketch.npy"
#: Beside goldens: digests of what they were made from, in the format of ``sha256sum``.
RECORD = "made-from.sha256"
#: The most bytes of a whole golden: a repository stores all of them.
LARGEST_WHOLE = 1 << 20
#: The most bytes of all goldens of a catalog.
LARGEST_TREE = 20_000_000
#: Bytes of an element in goldens, which store floating point as double.
_BYTES = {"i32": 4, "i16": 2, "i8": 1, "u32": 4, "u16": 2, "u8": 1, "bool": 1, "c64": 16, "c128": 16}


@dataclass(frozen=True)
class GoldenFile:
    """A file or folder in ``golden/WORKLOAD/`` other than its tolerances and costs."""

    root: Path
    workload: str
    item: Item


def is_sketched(workload: Workload, output: Output) -> bool:
    """Return whether the golden of an output is stored as a sketch, because the array is too large."""
    if workload.golden == "computed":
        return False
    sizes = (size if isinstance(size, int) else workload.dims[size] for size in output.shape)
    return math.prod(sizes) * _BYTES.get(output.dtype, 8) > LARGEST_WHOLE


def golden_name(workload: Workload, name: str) -> str:
    """Return the name of an output's golden file in ``golden/WORKLOAD/``."""
    return name + (SKETCH if is_sketched(workload, workload.outputs[name]) else WHOLE)


def other_name(workload: Workload, name: str) -> str:
    """Return the name of the golden file in the other form."""
    return name + (WHOLE if is_sketched(workload, workload.outputs[name]) else SKETCH)


def record_of(workload: Workload, reference: Path) -> str:
    """Return the record of goldens that are made now. Raise OSError for an unreadable reference.

    It covers what decides a golden and is part of the catalog, without comments and keys that change no number.
    """
    inputs = [[name, each.shape, each.dtype, each.formula, each.seed] for name, each in workload.inputs.items()]
    outputs = [[name, each.shape, each.dtype] for name, each in workload.outputs.items()]
    digests = {
        reference.name: digest_file(reference),
        "inputs": digest_value({"dims": workload.dims, "inputs": inputs}),
        "outputs": digest_value({"dims": workload.dims, "outputs": outputs}),
    }
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items())
