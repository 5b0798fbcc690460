"""Write a C program that calls a kernel and prints wrong elements beside expected ones. It needs only a C compiler."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import FLOATS, Array
from mlir_matrix.actions.numerics.formats import FORMATS
from mlir_matrix.actions.params import JudgedOutput, Tensor

_TYPES = {
    "f64": "double", "f32": "float", "f16": "_Float16", "bf16": "uint16_t", "bool": "bool",
    **{f"{sign}{bits}": f"{kind}{bits}_t" for sign, kind in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
#: The most elements of all arrays. A program with more takes long to compile.
_MOST = 1 << 18
_IN_LINE = 8
_LARGEST = int(np.iinfo(np.int64).max)
#: Numbers of NumPy that C spells otherwise.
_LITERALS = {
    "True": "1",
    "False": "0",
    "inf": "INFINITY",
    "-inf": "-INFINITY",
    "nan": "NAN",
    str(-_LARGEST - 1): "INT64_MIN",
}
_HEAD = """\
/* Calls the kernel, prints the wrong elements, counted row by row, beside what is right, and exits with 1 if there are any. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How MLIR passes a tensor of rank N. */
#define MEMREF(N) struct { void *allocated, *aligned; int64_t offset, sizes[N], strides[N]; }

/* Where element i is, counted row by row. */
static int64_t place(int rank, const int64_t *sizes, const int64_t *strides, int64_t i) {
  int64_t found = 0;
  for (int axis = rank - 1; axis >= 0; axis--) {
    found += i % sizes[axis] * strides[axis];
    i /= sizes[axis];
  }
  return found;
}

static int wrong;

static void check(const char *name, int64_t i, int digits, long double actual, long double expected, double bound) {
  bool same = actual == expected || (isnan(actual) && isnan(expected));
  if (same || (isfinite(expected) && fabsl(actual - expected) <= bound)) return;
  if (wrong++ < 20) printf("%s[%" PRId64 "]: expected %.*Lg, actual %.*Lg\\n", name, i, digits, expected, digits, actual);
}
"""
_BF16 = """
static float bf16(uint16_t bits) {
  uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}
"""
#: Prefixes of allocators that IR calls if it was lowered with ``use-generic-functions``; the second one in LLVM 15.
_ALLOCATORS = ("_mlir_memref_to_llvm_", "_mlir_")
_MEMORY = """
void *PREFIX_alloc(size_t size) { return malloc(size); }
void *PREFIX_aligned_alloc(size_t unit, size_t size) { return aligned_alloc(unit, (size + unit - 1) / unit * unit); }
void PREFIX_free(void *memory) { free(memory); }
"""
#: As in MLIR's runtime, which needs C++.
_COPY = """
typedef struct { int64_t rank; MEMREF(1) *descriptor; } Unranked;

void memrefCopy(int64_t size, const Unranked *from, const Unranked *to) {
  const int64_t *source = &from->descriptor->offset, *target = &to->descriptor->offset, rank = from->rank;
  int64_t count = 1;
  for (int axis = 1; axis <= rank; axis++) count *= source[axis];
  for (int64_t i = 0; i < count; i++)
    memmove((char *)to->descriptor->aligned + size * (target[0] + place(rank, target + 1, target + 1 + rank, i)),
            (char *)from->descriptor->aligned + size * (source[0] + place(rank, source + 1, source + 1 + rank, i)), size);
}
"""


@dataclass(frozen=True, kw_only=True)
class ExpectedBytes:
    """The expected output, and bounds of single elements, if any, as bytes of ``.npy`` files."""

    output: JudgedOutput
    values: bytes
    bounds: bytes | None


def c_program(
    entry: str,
    arguments: Sequence[tuple[Tensor, bytes]],
    results: Sequence[ExpectedBytes],
    kernel: bytes,
    *,
    caller: str = "",
) -> str:
    """Return the text, empty for tensors that C or this program cannot compare.

    ``kernel`` is the object, or IR in the LLVM dialect. With ``caller``, the text is a library's: the name of a function that is
    called with the kernel's address, instead of ``main``.
    """
    inputs = [(tensor, _load(data)) for tensor, data in arguments]
    outputs = [(each.output, _load(each.values), each.bounds) for each in results]
    kinds = {tensor["dtype"] for tensor, _ in inputs} | {output["dtype"] for output, *_ in outputs}
    compared = {output["compare"] for output, *_ in outputs}
    elements = sum(values.size for _, values in inputs) + sum(values.size for _, values, _ in outputs)
    if not kinds <= _TYPES.keys() or not compared <= {"numeric", "exact"} or elements > _MOST:
        return ""
    declared = [_HEAD]
    declared += [_BF16] if any(output["dtype"] == "bf16" for output, *_ in outputs) else []
    prefix = next(
        (each for each in _ALLOCATORS if f"{each}alloc".encode() in kernel or f"{each}free".encode() in kernel), ""
    )
    declared += [_MEMORY.replace("PREFIX_", prefix)] if prefix else []
    declared += [_COPY] if b"memrefCopy" in kernel else []
    parameters = ["void *results", *(f"void *{tensor['name']}" for tensor, _ in inputs)]
    declaration = f"void {entry}({', '.join(parameters)})"
    declared += ["\n"] if caller else [f"\n{declaration};\n\n"]
    declared += [_array(_TYPES[tensor["dtype"]], f"in_{tensor['name']}", values) for tensor, values in inputs]
    for output, values, bounds in outputs:
        exact = output["dtype"] not in FLOATS
        right = values if exact else dtypes.decode(dtypes.rounded(values, output["dtype"]), output["dtype"])
        declared += [_array("long double" if exact else "double", f"right_{output['name']}", right)]
        declared += [_array("double", f"bound_{output['name']}", _bounds(output, values, bounds))]
    head = f"void {caller}({declaration})" if caller else "int main(void)"
    return "".join([*declared, f"\n{head} {{\n", *_calls(entry, inputs, outputs), "  exit(wrong != 0);\n}\n"])


def _calls(
    entry: str, inputs: Sequence[tuple[Tensor, Array]], outputs: Sequence[tuple[JudgedOutput, Array, bytes | None]]
) -> Iterable[str]:
    """Yield the statements that call the kernel, and check each result."""
    for tensor, values in inputs:
        strides = [math.prod(values.shape[axis + 1 :]) for axis in range(values.ndim)]
        places = "".join(f", {{{', '.join(map(str, each))}}}" for each in (values.shape, strides) if values.ndim)
        name = tensor["name"]
        yield f"  MEMREF({values.ndim}) arg_{name} = {{in_{name}, in_{name}, 0{places}}};\n"
    members = " ".join(f"MEMREF({values.ndim}) {output['name']}_;" for output, values, _ in outputs)
    yield f"  struct {{ {members} }} out;\n"
    passed = ["&out", *(f"&arg_{tensor['name']}" for tensor, _ in inputs)]
    yield f"  {entry}({', '.join(passed)});\n"
    for output, values, _ in outputs:
        name, kind = output["name"], _TYPES[output["dtype"]]
        memref, rank = f"out.{name}_", values.ndim
        for axis, size in enumerate(values.shape):
            yield f'  if ({memref}.sizes[{axis}] != {size}) puts("{name} has another shape"), exit(1);\n'
        where = f"{memref}.offset + place({rank}, {memref}.sizes, {memref}.strides, i)"
        element = f"(({kind} *){memref}.aligned)[{where}]"
        element = f"bf16({element})" if output["dtype"] == "bf16" else element
        digits = 17 if output["dtype"] == "f64" else 9 if output["dtype"] in FLOATS else 20
        yield f"  for (int64_t i = 0; i < {values.size}; i++)\n"
        yield f'    check("{name}", i, {digits}, {element}, right_{name}[i], bound_{name}[i]);\n'
    total = sum(values.size for _, values, _ in outputs)
    yield f'  printf("%d of {total} elements are wrong\\n", wrong);\n'


def _load(data: bytes) -> Array:
    values: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return values


def _bounds(output: JudgedOutput, values: Array, bounds: bytes | None) -> Array:
    """Return the bound of each element's absolute error."""
    if output["compare"] == "exact":
        return np.zeros(values.shape)
    size = np.abs(values.astype(np.float64))
    with np.errstate(invalid="ignore"):
        found = output["atol"] + output["rtol"] * size
    if bounds is not None:
        own = _load(bounds)
        found = np.where(np.isfinite(own), own, found)
    if output.get("max_ulp") is not None and output["dtype"] in FORMATS:
        form = FORMATS[output["dtype"]]
        spacing = np.maximum(np.ldexp(form.eps, np.frexp(size)[1] - 1), form.least)
        found = np.maximum(found, output["max_ulp"] * spacing)
    return found


def _array(kind: str, name: str, values: Array) -> str:
    """Return the definition of an array."""
    words = [_literal(str(value)) for value in values.reshape(-1)] or ["0"]
    lines = [f"  {', '.join(words[start : start + _IN_LINE])},\n" for start in range(0, len(words), _IN_LINE)]
    return f"static _Alignas(64) {kind} {name}[] = {{\n{''.join(lines)}}};\n"


def _literal(word: str) -> str:
    """Return a number of NumPy as one of C."""
    if word.isdecimal() and int(word) > _LARGEST:
        return f"{word}u"
    return _LITERALS.get(word, word)
