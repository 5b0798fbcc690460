"""Say what a call of a workload has to do at least, arithmetic operations and bytes, and relate its time to the machine's peak.

The arithmetic is stated (``flops`` in workload.yaml) or counted in structured operations: how often their bodies run, by how many
operations are in a body. A function such as ``math.exp`` counts as one operation, and so does each comparison of ``maximumf``.
Conversions, selections and arithmetic on indices count nothing. The bytes are those of all inputs and outputs, each once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir_matrix.actions.numerics.formats import COMPLEX
from mlir_matrix.catalog.bounds import evaluate
from mlir_matrix.catalog.models.base import FLOATS, Output, TensorInput, Workload
from mlir_matrix.catalog.models.machines import Peaks
from mlir_matrix.cost.documents import PeakShare
from mlir_matrix.plan.parameters import sizes
from mlir_matrix.reduction.numpy_linalg import loops_of
from mlir_matrix.reduction.numpy_terms import Untranslatable
from mlir_matrix.reduction.tree import Operation, ParseError, Value, blocks_of, parse
from mlir_matrix.reduction.types import element_of, is_float, is_integer

#: Operations of ``arith`` that compute, on floating point and on integers.
_ARITHMETIC = re.compile(
    r"arith\.(?:(?:add|sub|mul|div|rem|neg|max|min|maximum|minimum|maxnum|minnum|ceildiv|floordiv)[su]?[fi]i?)"
)
#: What has regions that do not compute: a pad copies a value, a function is called once.
_TRANSPARENT = ("builtin.module", "func.func", "tensor.pad")
#: Operations without regions, which run as often as what they are in.
_KNOWN = re.compile(
    r"(?:arith|math|tensor|index|bufferization|ml_program)\.\w+|linalg\.(?:index|yield)|func\.return|cf\.assert"
)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one call has to do at least."""

    #: Arithmetic operations; None if they are not known, for the reason ``absent``.
    flops: int | None
    #: Bytes of all inputs and outputs.
    bytes: int
    #: The dtype of the arithmetic, in which a machine has a peak.
    dtype: str
    absent: str = ""


class _Uncountable(Exception):
    """Why the operations of a module cannot be counted."""


def work_of(workload: Workload, linalg: str = "") -> Work:
    """Return the work of a workload. ``linalg``: its IR at linalg on tensors, in generic form, if there is one.

    What is not known is absent with a reason.
    """
    tensors: list[TensorInput | Output] = [*workload.inputs.values(), *workload.outputs.values()]
    moved = sum(math.prod(sizes(each.shape, workload.dims)) * _bytes_of(each.dtype) for each in tensors)
    floats = [COMPLEX.get(each.dtype, each.dtype) for each in reversed(tensors) if each.dtype in FLOATS]
    dtype = next(iter(floats or [each.dtype for each in reversed(tensors)]), "")
    if workload.flops is not None:
        return Work(flops=round(evaluate(workload.flops, workload.dims, dtype)), bytes=moved, dtype=dtype)
    if not linalg:
        why = "its route has no IR at linalg; state 'flops' in its workload.yaml"
        return Work(flops=None, bytes=moved, dtype=dtype, absent=why)
    counted = Counter[str]()
    try:
        for element, number in _counted(parse(linalg).operation, 1):
            counted[element] += number
    except (ParseError, _Uncountable) as error:
        return Work(flops=None, bytes=moved, dtype=dtype, absent=f"{error}; state 'flops' in its workload.yaml")
    if counted:
        dtype = max(counted, key=lambda element: counted[element])
    return Work(flops=counted.total(), bytes=moved, dtype=dtype)


def share_of_peak(work: Work, ns: float, peaks: Peaks) -> PeakShare | None:
    """Return the share of a call that takes so many nanoseconds; None if its work, or the peak of its dtype, is not known.

    It can be above 1: a program may avoid work, and other work on the machine may have slowed the measurement of the peaks.
    """
    if work.flops is None or ns <= 0 or (work.flops and work.dtype not in peaks.gflops):
        return None
    holding = [level for level, size in sorted(peaks.caches.items()) if work.bytes <= size and level in peaks.gbs]
    level = holding[0] if holding else "memory"
    if level not in peaks.gbs:
        return None
    moving = work.bytes / peaks.gbs[level]
    computing = work.flops / peaks.gflops[work.dtype] if work.flops else 0.0
    bound: Literal["compute", "memory"] = "compute" if computing > moving else "memory"
    return {"fraction": max(computing, moving) / ns, "bound": bound, "level": level}


def _bytes_of(dtype: str) -> int:
    """Return the bytes of an element; ``bool`` has one."""
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits else 1


def _counted(one: Operation, times: int) -> Iterator[tuple[str, int]]:
    """Yield the element type and the number of the arithmetic operations of an operation that runs so often.

    Raise _Uncountable for loops whose length is not known.
    """
    if one.name.startswith("linalg.") and one.regions:
        times *= _iterations(one)
    elif one.regions and one.name not in _TRANSPARENT:
        raise _Uncountable(f"it is not known how often the body of {one.name} runs")
    elif not one.regions and not _KNOWN.fullmatch(one.name):
        raise _Uncountable(f"the operation {one.name} is not known")
    yield from _own(one, times)
    for block in blocks_of(one):
        for inner in block.operations:
            yield from _counted(inner, times)


def _own(one: Operation, times: int) -> Iterator[tuple[str, int]]:
    """Yield the element type and number of operations that one operation does, on each element of its result."""
    if not (one.results and (_ARITHMETIC.fullmatch(one.name) or one.name.startswith("math."))):
        return
    type_ = one.results[0].type
    element = element_of(type_)
    if is_float(element) or (is_integer(element) and element not in ("index", "i1")):
        elements = math.prod(_static(size, one) for size in _sizes(one.results[0]))
        yield element, times * elements * (2 if one.name == "math.fma" else 1)


def _iterations(one: Operation) -> int:
    """Return how often the body of a structured operation runs."""
    try:
        loops = loops_of(one, _sizes)
    except Untranslatable as error:
        raise _Uncountable(f"it is not known how often the body of {one.name} runs") from error
    return math.prod(_static(size, one) for size in loops.sizes)


def _sizes(value: Value) -> Sequence[str]:
    """Return the sizes of a tensor, ``?`` for those that only a run knows; none for a scalar."""
    found = re.match(r"tensor<((?:(?:\d+|\?)x)*)", value.type)
    return found[1].split("x")[:-1] if found else ()


def _static(size: str, one: Operation) -> int:
    if not size.isdigit():
        raise _Uncountable(f"{one.name} has a dimension whose size only a run knows")
    return int(size)
