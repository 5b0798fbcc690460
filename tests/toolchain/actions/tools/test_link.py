"""Linking: names of the kernel and of C never meet, and what is missing is named."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.tools import link

ONE = "ENTRY(M0 *r) { *r = take0(4); *(float *)r->data = 1.0f; }"

#: What the lowerings of MLIR's math, complex and arith dialects call, for f32 and f64.
MATH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "pow",
    "remainder",
    "rint",
    "round",
    "roundeven",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "nearbyint",
    "ldexp",
    "frexp",
]
COMPLEX = [
    "cabs",
    "carg",
    "cexp",
    "clog",
    "cpow",
    "csqrt",
    "csin",
    "ccos",
    "ctanh",
    "conj",
    "cabsf",
    "cexpf",
    "clogf",
    "cpowf",
    "csqrtf",
    "ctanhf",
]
#: What code generation calls where the CPU has no instruction for it.
HELPERS = [
    "__truncsfhf2",
    "__truncdfhf2",
    "__extendhfsf2",
    "__truncsfbf2",
    "__truncdfbf2",
    "__divti3",
    "__modti3",
    "__udivti3",
    "__umodti3",
    "__multi3",
    "__fixunsdfti",
    "__floattidf",
    "__powisf2",
    "__powidf2",
    "memcpy",
    "memmove",
    "memset",
    "memrefCopy",
    "malloc",
    "free",
    "abort",
]


def test_every_function_that_a_kernel_may_need_is_there(bench: Any) -> None:
    names = [*MATH, *(f"{name}f" for name in MATH), *HELPERS, "exp10", "exp10f", "sincos", "sincosf", *COMPLEX]
    declared = "".join(f"void {name}();\n" for name in names)
    used = ", ".join(f"(void *){name}" for name in names)
    source = (
        f"{declared} ENTRY(M0 *r) {{ void *volatile p[] = {{{used}}}; *r = take0(4); *(int *)r->data = p[0] != 0; }}"
    )
    assert bench.call(source, [], [("i32", [])])[0] == 1


def test_conversions_and_rounding_without_instructions_for_them(bench: Any) -> None:
    """Baseline x86-64 calls the library for them. Ties go to even, f64 to bf16 is rounded once, NaN stays NaN."""
    source = """double roundeven(double); float roundevenf(float);
    ENTRY(struct { M1 b32; M1 b64; M1 half; M1 wide; M1 even; } *r, M1 *x) {
      i64 n = x->size[0];
      r->b32 = take1(2, n); r->b64 = take1(2, n); r->half = take1(2, n); r->wide = take1(4, n); r->even = take1(8, n);
      for (i64 i = 0; i < n; i++) {
        double value = AT(double, x, i);
        AT(__bf16, &r->b32, i) = (__bf16)(float)value; AT(__bf16, &r->b64, i) = (__bf16)value;
        AT(_Float16, &r->half, i) = (_Float16)(float)value; AT(float, &r->wide, i) = (float)AT(_Float16, &r->half, i);
        AT(double, &r->even, i) = roundeven(value) + roundevenf(value); } }"""
    tie = 1 + 2**-8  # halfway between two bf16
    values = [
        0.0,
        -0.0,
        1.5,
        2.5,
        -3.5,
        tie,
        tie + 2**-40,
        1 + 3 * 2**-8,
        3.4e38,
        -1e300,
        numpy.inf,
        numpy.nan,
        1e-40,
        65519.0,
    ]
    x = numpy.array(values)
    shape = [len(values)]
    kinds = ["bf16", "bf16", "f16", "f32", "f64"]
    b32, b64, half, wide, even = bench.call(source, [("f64", x)], [(kind, shape) for kind in kinds])
    with numpy.errstate(over="ignore"):
        f32 = x.astype("f4")
        f16 = f32.astype("f2")
    to_float = [(b.astype("u4") << 16).view("f4") for b in (b32, b64)]
    numpy.testing.assert_array_equal(to_float[0][5:9], numpy.array([1, 1, 1 + 2**-6, numpy.inf], dtype="f4"))
    numpy.testing.assert_array_equal(to_float[1][5:9], numpy.array([1, 1 + 2**-7, 1 + 2**-6, numpy.inf], dtype="f4"))
    for result in to_float:
        numpy.testing.assert_array_equal(result[[0, 1, 2, 3, 4, 9, 10, 11]], f32[[0, 1, 2, 3, 4, 9, 10, 11]])
        assert abs(result[12] - 1e-40) < 1e-40
        assert numpy.signbit(result[1])
    numpy.testing.assert_array_equal(half, f16)
    numpy.testing.assert_array_equal(wide, half.astype("f4"))
    numpy.testing.assert_array_equal(even, numpy.rint(x) + numpy.rint(f32))


def test_kernel_may_call_its_functions_what_it_likes(bench: Any) -> None:
    names = ["main", "round", "malloc", "free", "memcpy", "printf", "exit", "fail", "call_kernel", "write"]
    own = "".join(
        f"__attribute__((noinline)) int {name}(int x) {{ return x + {i}; }}\n" for i, name in enumerate(names)
    )
    total = " + ".join(f"{name}(n)" for name in names)
    source = f"{own} ENTRY(M1 *r, M1 *x) {{ int n = AT(int, x, 0); *r = take1(4, 1); AT(int, r, 0) = {total}; }}"
    assert bench.call(source, [("i32", [100])], [("i32", [1])])[0].tolist() == [1045]


def test_what_nobody_has_is_named(bench: Any) -> None:
    source = "float nobody_has_this(float); float nor_this(float);"
    source += "ENTRY(M0 *r) { *r = take0(4); *(float *)r->data = nor_this(nobody_has_this(1)); }"
    with pytest.raises(ActionFailed) as caught:
        bench.link(bench.compile(source))
    assert caught.value.reason == "the kernel needs nobody_has_this, nor_this, which neither the driver nor libm has"
    assert "nobody_has_this" in caught.value.diagnostics
    assert str(bench.folder) not in caught.value.diagnostics


def test_kernel_without_an_entry_point(bench: Any) -> None:
    with pytest.raises(ActionFailed, match="no entry point _mlir_ciface_main"):
        bench.link(bench.compile("int main(void) { return 0; }"))


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"func.func @main() { return }\n" * 9, b"\x7fELF\x01\x01\x01" + bytes(99)]
)
def test_what_is_no_object_is_refused(bench: Any, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "kernel.o"
    path.write_bytes(data)
    with pytest.raises(ActionFailed, match="not a 64-bit little-endian ELF object"):
        bench.link(path)


def test_truncated_object_is_refused(bench: Any, tmp_path: Path) -> None:
    whole = bench.compile(ONE).read_bytes()
    path = tmp_path / "half.o"
    for length in (80, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ActionFailed, match="the kernel"):
            bench.link(path)


def test_executable_is_static_and_the_same_bytes_in_another_folder(bench: Any, tmp_path: Path) -> None:
    kernel = bench.compile(ONE)
    first = bench.link(kernel).read_bytes()
    bench.folder = tmp_path / "elsewhere"
    bench.folder.mkdir()
    assert bench.link(kernel).read_bytes() == first
    assert int.from_bytes(first[16:18], "little") == 2, "an executable that is not position independent"
    assert str(tmp_path).encode() not in first
    assert [path.name for path in bench.folder.iterdir()] == ["kernel"]


def test_renaming_leaves_the_entry_point_and_the_undefined_alone(bench: Any) -> None:
    source = "float tanhf(float); static int hidden; int shown(void) { return hidden++; }"
    source += "ENTRY(M0 *r) { *r = take0(4); *(float *)r->data = tanhf(shown()); }"
    before = bench.compile(source).read_bytes()
    sections = link._sections(before)
    after = link.rename_symbols(before)
    table = next(section for section in sections if section.kind == 2)
    names = link._sections(after)[table.link]
    strings = after[names.offset : names.offset + names.size]
    assert [name for _, name in link._shown(after, table, strings)] == [b"kernel.shown"]
    assert {b"tanhf", b"_mlir_ciface_main", b"_mlir_memref_to_llvm_alloc"} <= set(strings.split(b"\0"))
    assert len(after) > len(before)


def test_a_kernel_without_arguments_complains_and_leaves_nothing(bench: Any) -> None:
    done = subprocess.run([bench.link(bench.compile(ONE))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert "names" in done.stderr or "name one with --out" in done.stderr
