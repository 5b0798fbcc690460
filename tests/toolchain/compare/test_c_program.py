"""C programs that call kernels: compiled, and linked with kernels whose results are known."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.compare.c_program import ExpectedBytes, c_program
from support.downstream import npy
from support.machine import needs

#: A kernel that returns its argument transposed, in place: only the strides say so.
TRANSPOSED = """\
#include <stdint.h>
typedef struct { void *allocated, *aligned; int64_t offset, sizes[2], strides[2]; } Memref;
void memrefCopy(int64_t size, const void *from, const void *to);
void entry(Memref *result, Memref *x) {
  *result = *x;
  for (int axis = 0; axis < 2; axis++) result->sizes[axis] = x->sizes[1 - axis], result->strides[axis] = x->strides[1 - axis];
}
"""
SCALAR = """\
#include <stdint.h>
typedef struct { void *allocated, *aligned; int64_t offset; } Memref;
void entry(Memref *results, Memref *x, Memref *y) { results[0] = *y; results[1] = *x; }
"""


def output(name: str, dtype: str, values: Any, **more: Any) -> ExpectedBytes:
    stored = np.asarray(values, dtypes.golden_storage(dtype))
    spec = {"name": name, "dtype": dtype, "shape": list(stored.shape), "compare": "numeric", "atol": 0.0, "rtol": 0.0}
    return ExpectedBytes(output={**spec, **more}, values=npy(stored), bounds=None)  # type: ignore[typeddict-item]


def ran(folder: Path, kernel: str, program: str) -> tuple[int, str]:
    """Compile a kernel and the program that calls it, and run them."""
    (folder / "kernel.c").write_text(kernel)
    (folder / "main.c").write_text(program)
    words = ["cc", "-Wall", "-Wextra", "-Werror", "main.c", "kernel.c", "-lm", "-o", "main"]
    made = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([folder / "main"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


cc = needs("cc")


@cc
@pytest.mark.parametrize(
    ("dtype", "values", "worse"),
    [
        ("f64", [[0.1, -np.inf], [np.nan, 5e-324], [1.5, 3]], 2.0),
        ("f32", [[0.1, 1e-45], [np.nan, -0.5], [3e38, np.inf]], 0.25),
        ("f16", [[0.1, 6e-8], [np.nan, -0.5], [65504, np.inf]], 0.25),
        ("bf16", [[0.1, 1e-40], [np.nan, -0.5], [3e38, np.inf]], 0.25),
        ("i64", [[-(1 << 63), (1 << 63) - 1], [(1 << 53) + 1, 0], [-1, 7]], 8),
        ("u64", [[(1 << 64) - 1, 1 << 63], [(1 << 53) + 1, 0], [1, 7]], 8),
        ("i8", [[-128, 127], [0, 1], [2, 3]], 4),
        ("bool", [[True, False], [True, True], [False, False]], True),
    ],
)
def test_every_bit_gets_there_and_back(tmp_path: Path, dtype: str, values: Any, worse: Any) -> None:
    """Of each dtype, with its extremes, under a bound of 0; one other number is found, and printed beside what is right."""
    exact = dtype not in dtypes.FLOATS
    doubles = np.asarray(values, dtypes.golden_storage(dtype))
    with np.errstate(over="ignore"):
        stored = doubles.astype(dtypes.STORAGE["f32" if dtype == "bf16" else dtype])
    if dtype == "bf16":
        stored = (stored.view(np.uint32) >> 16).astype(np.uint16)
    right = doubles if exact else dtypes.decode(stored, dtype)
    argument: Any = ({"name": "x", "dtype": dtype, "shape": [3, 2], "dynamic": []}, npy(stored))
    compare = "exact" if exact else "numeric"
    text = c_program("entry", [argument], [output("y", dtype, right.T, compare=compare)], b"memrefCopy _mlir_alloc")
    assert ran(tmp_path, TRANSPOSED, text) == (0, "0 of 6 elements are wrong\n")
    wrong = right.T.copy()
    wrong[1, 2] = worse
    text = c_program("entry", [argument], [output("y", dtype, wrong, compare=compare)], b"")
    code, said = ran(tmp_path, TRANSPOSED, text)
    assert code == 1
    found = {True: "1", False: "0"}.get(values[2][1], f"{values[2][1]:.17g}")
    assert said == f"y[5]: expected {float(worse):.17g}, actual {found}\n1 of 6 elements are wrong\n"


@cc
def test_scalars_bounds_and_shapes(tmp_path: Path) -> None:
    arguments: Any = [
        ({"name": name, "dtype": dtype, "shape": [], "dynamic": []}, npy(np.asarray(value, dtypes.STORAGE[dtype])))
        for name, dtype, value in (("x", "f32", 1.0), ("y", "i32", 5))
    ]
    far = output("b", "f32", 1.25, rtol=0.1)
    near = output("b", "f32", 1.25, atol=0.125, rtol=0.1)
    own = ExpectedBytes(output=far.output, values=far.values, bounds=npy(np.asarray(0.25)))
    unlike = ExpectedBytes(output=near.output, values=npy(np.asarray(np.nan)), bounds=None)
    # The numbers of a dtype between 1 and 1.25: a quarter of those between 1 and 2.
    places = {"f32": 1 << 21, "bf16": 1 << 5}
    ulps = [(output("b", dtype, 1.25, max_ulp=most - less), less) for dtype, most in places.items() for less in (0, 1)]
    for second, code in ((far, 1), (near, 0), (own, 0), (unlike, 1), *ulps):
        stored = np.asarray(0x3F80, "u2") if second.output["dtype"] == "bf16" else np.asarray(1, "f4")
        arguments[0] = ({**arguments[0][0], "dtype": second.output["dtype"]}, npy(stored))
        text = c_program("entry", arguments, [output("a", "i32", 5, compare="exact"), second], b"")
        assert ran(tmp_path, SCALAR, text)[0] == code
    matrix: Any = ({"name": "x", "dtype": "f32", "shape": [3, 2], "dynamic": []}, npy(np.zeros((3, 2), "f4")))
    text = c_program("entry", [matrix], [output("y", "f32", np.zeros((3, 2)))], b"")
    assert ran(tmp_path, TRANSPOSED, text) == (1, "y has another shape\n")


@cc
def test_a_caller_passes_the_kernel(tmp_path: Path) -> None:
    """It does not know the kernel's name, and goes on after no check."""
    kernel = TRANSPOSED.replace("void entry", "static void kernel") + (
        "void check_kernel(void (*kernel)(Memref *, Memref *)); int main(void) { check_kernel(kernel); return 7; }\n"
    )
    values = np.arange(6).reshape(3, 2)
    argument: Any = ({"name": "x", "dtype": "f32", "shape": [3, 2], "dynamic": []}, npy(values.astype("f4")))
    for right, code in ((values.T, 0), (values.T + 1, 1)):
        text = c_program("entry", [argument], [output("y", "f32", right)], b"", caller="check_kernel")
        found, said = ran(tmp_path, kernel, text)
        assert (found, said.splitlines()[-1]) == (code, f"{6 * code} of 6 elements are wrong")


def test_what_c_cannot_compare() -> None:
    values = np.zeros(4)
    argument: Any = ({"name": "x", "dtype": "f32", "shape": [4], "dynamic": []}, npy(values.astype("f4")))
    assert c_program("entry", [argument], [output("y", "f32", values)], b"")
    for other in (
        output("y", "f32", values, compare="order-free"),
        output("y", "f32", np.zeros(1 << 18)),
        ExpectedBytes(output=output("y", "f32", values).output | {"dtype": "f8E5M2"}, values=npy(values), bounds=None),  # type: ignore[typeddict-item]
    ):
        assert c_program("entry", [argument], [other], b"") == ""
