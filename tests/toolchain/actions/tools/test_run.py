"""The driver through its action: values in and out, everything that a kernel can do wrong, and what is said then."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.contract import Action, ActionCrashed, ActionFailed, MachineFailed
from mlir_matrix.actions.runtime import driver
from mlir_matrix.actions.tools import run
from support.programs import LOST_LIBRARY, unloadable

DTYPES = {
    "f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
    "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?",
}  # fmt: skip
ALIAS = "ENTRY(M{0} *r, M{0} *x) {{ *r = *x; }}"
FIVE = [("f32", [1.0, 2.0, 3.0, 4.0, 5.0])]


def saved(array: Any, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    numpy.lib.format.write_array(stream, array, version=version)
    return stream.getvalue()


# What goes in and comes out


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 0), (0,), (2, 3, 4), (2, 1, 3, 2)])
def test_files_are_those_of_numpy(bench: Any, shape: tuple[int, ...]) -> None:
    """Every dtype: a result that is an argument comes back byte for byte as numpy.save writes it."""
    kernel = bench.compile(ALIAS.format(len(shape)))
    count = int(numpy.prod(shape))
    for dtype, stored in DTYPES.items():
        array = (numpy.arange(count) * 37 % (2 if dtype == "bool" else 113)).astype(stored).reshape(shape)
        bench.call(kernel, [(dtype, array)], [(dtype, shape)])
        assert (bench.folder / "r0.npy").read_bytes() == saved(array), dtype


def test_header_at_the_edge_of_a_block(bench: Any) -> None:
    """NumPy pads by a whole block where the header would end just at one: sizes that make it of every length."""
    memref = "typedef struct { void *base; void *data; i64 offset; i64 size[9], stride[9]; } M9;"
    kernel = bench.compile(memref + ALIAS.format(9))
    lengths = set()
    for digits in range(19):
        shape = (0, *(10 ** ((digits + i) // 8) for i in range(8)))
        array = numpy.zeros(shape, dtype="i1")
        bench.call(kernel, [("i8", array)], [("i8", shape)])
        written = (bench.folder / "r0.npy").read_bytes()
        assert written == saved(array), shape
        lengths.add(len(written))
    assert len(lengths) == 2


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(bench: Any, version: tuple[int, int]) -> None:
    array = numpy.arange(6, dtype="i8").reshape(2, 3)
    assert (call_on(bench, saved(array, version), "i64", [2, 3]) == array).all()


def call_on(bench: Any, data: bytes, dtype: str, shape: list[int]) -> Any:
    """The argument that a file with these bytes is, handed through a kernel."""
    kernel = bench.link(bench.compile(ALIAS.format(len(shape))))
    (bench.folder / "x.npy").write_bytes(data)
    tensor = {"dtype": dtype, "shape": shape}
    params = {"arguments": [{"name": "x", **tensor}], "results": [{"name": "y", **tensor}]}
    with contextlib.chdir(bench.folder):
        run.run(Action(params=params, inputs={"kernel": kernel.name, "arg-x": "x.npy"}, outputs={"out-y": "y.npy"}))
        return numpy.load("y.npy")


HERE = numpy.arange(6, dtype="f4").reshape(2, 3)
WRONG_FILES: dict[str, tuple[bytes, str]] = {
    "dtype": (saved(HERE.astype("f8")), "has elements '<f8', but f32 needs '<f4'"),
    "big-endian": (saved(HERE.astype(">f4")), "has elements '>f4'"),
    "structured": (saved(HERE.astype("f4").view([("a", "f4")])), "f32 needs '<f4'"),
    "sizes": (saved(HERE.T.copy()), "has shape 3x2, declared is 2x3"),
    "rank": (saved(HERE.reshape(6)), "has shape 6, declared is 2x3"),
    "scalar": (saved(numpy.float32(1)), "has shape scalar, declared is 2x3"),
    "order": (saved(numpy.asfortranarray(HERE)), "Fortran order"),
    "shorter": (saved(HERE)[:-1], "shorter than its header says"),
    "longer": (saved(HERE) + b"\0", "longer than its header says"),
    "empty": (b"", "is no .npy file"),
    "text": (b"not an array at all", "is no .npy file"),
    "header": (saved(HERE)[:40], "ends early"),
    "version": (saved(HERE).replace(b"NUMPY\x01", b"NUMPY\x09"), "version 9"),
    "no shape": (saved(HERE).replace(b"shape", b"shade"), "a header that makes no sense"),
    "negative": (saved(HERE).replace(b"(2, 3)", b"(-2,3)"), "a header that makes no sense"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_wrong_files_are_refused(bench: Any, case: str) -> None:
    data, words = WRONG_FILES[case]
    with pytest.raises(ActionFailed) as caught:
        call_on(bench, data, "f32", [2, 3])
    assert caught.value.reason.startswith("argument 0: x.npy")
    assert words in caught.value.reason
    assert not (bench.folder / "y.npy").exists()


def test_two_results_one_open_and_a_scalar(bench: Any) -> None:
    source = """ENTRY(struct { M1 y; M0 n; } *r, M1 *x) {
      i64 n = 0; r->y = take1(4, x->size[0]); r->n = take0(8);
      for (i64 i = 0; i < x->size[0]; i++) if (AT(float, x, i) > 2) AT(float, &r->y, n++) = AT(float, x, i);
      r->y.size[0] = n; *(i64 *)r->n.data = n; }"""
    y, n = bench.call(source, FIVE, [("f32", [None]), ("i64", [])])
    assert y.tolist() == [3, 4, 5]
    assert n.tolist() == 3


def test_strides_and_offset_of_results(bench: Any) -> None:
    """A transposed view, every other element, from behind: all without a copy in the kernel."""
    source = """ENTRY(struct { M2 t; M1 even; M1 back; } *r, M2 *x) {
      i64 rows = x->size[0], columns = x->size[1];
      r->t = *x; r->t.size[0] = columns; r->t.size[1] = rows; r->t.stride[0] = 1; r->t.stride[1] = columns;
      r->even = (M1){x->base, x->data, 1, {columns / 2}, {2}};
      r->back = (M1){x->base, x->data, rows * columns - 1, {rows * columns}, {-1}}; }"""
    x = numpy.arange(12, dtype="i4").reshape(3, 4)
    t, even, back = bench.call(source, [("i32", x)], [("i32", [4, 3]), ("i32", [2]), ("i32", [None])])
    assert (t == x.T).all()
    assert even.tolist() == [1, 3]
    assert back.tolist() == list(range(11, -1, -1))


def test_results_may_share_a_buffer_and_be_constants(bench: Any) -> None:
    """Neither is freed twice, nor at all where it is not the kernel's to give. MLIR marks all globals so."""
    source = """static float table[] = {7, 8, 9}; static const float constant[] = {4, 5, 6};
    ENTRY(struct { M1 a; M1 b; M1 c; M1 d; } *r) {
      r->a = take1(4, 3); r->b = r->a; for (int i = 0; i < 3; i++) AT(float, &r->a, i) = i;
      r->c = (M1){(void *)0xdeadbeef, table, 0, {3}, {1}}; r->d = (M1){constant, constant, 0, {3}, {1}}; }"""
    a, b, c, d = bench.call(source, [], [("f32", [3])] * 4)
    assert (a.tolist(), b.tolist()) == ([0, 1, 2], [0, 1, 2])
    assert (c.tolist(), d.tolist()) == ([7, 8, 9], [4, 5, 6])
    assert bench.metrics()["leaked_blocks"] == 0


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40, 63, 64, 127, 128, 700, 2047])
def test_any_number_of_arguments(bench: Any, count: int) -> None:
    named = "".join(f", M1 *x{i}" for i in range(count))
    total = "".join(f" + {i % 9 + 1} * AT(int, x{i}, 0)" for i in range(count))
    # Optimised, a sum of so many terms would take half a minute to compile.
    quick = "#pragma clang optimize off\n"
    source = f"{quick}ENTRY(M0 *r{named}) {{ *r = take0(4); *(int *)r->data = 5 {total}; }}"
    result = bench.call(source, [("i32", [100 + i]) for i in range(count)], [("i32", [])])[0]
    assert result == 5 + sum((i % 9 + 1) * (100 + i) for i in range(count))


def test_too_many_arguments(bench: Any) -> None:
    with pytest.raises(ActionFailed, match="takes 2049 pointers; 2048 can be passed"):
        bench.call("ENTRY(M0 *r) {}", [("i32", [1])] * 2048, [("i32", [])])


def test_arguments_are_new_in_each_call(bench: Any) -> None:
    source = "ENTRY(M1 *r, M1 *x) { for (int i = 0; i < 5; i++) AT(float, x, i) *= 2; *r = *x; x->size[0] = 0; }"
    assert bench.call(source, FIVE, [("f32", [5])], repeat=4)[0].tolist() == [2, 4, 6, 8, 10]
    assert len(bench.metrics()["kernel_ns"]) == 4


def test_another_result_in_a_later_call(bench: Any) -> None:
    source = "static int calls; ENTRY(M0 *r) { *r = take0(4); *(int *)r->data = calls++ / 2; }"
    with pytest.raises(ActionFailed, match=r"result 0: r0\.npy is another one in call 3"):
        bench.call(source, [], [("i32", [])], repeat=5)


def test_executable_that_lost_its_permission(bench: Any) -> None:
    source = "ENTRY(M0 *r) { *r = take0(4); *(int *)r->data = 3; }"
    bench.call(source, [], [("i32", [])])
    (bench.folder / "kernel").chmod(0o644)
    action = Action(
        params={"arguments": [], "results": [{"name": "r", "dtype": "i32", "shape": []}]},
        inputs={"kernel": "kernel"}, outputs={"out-r": "again.npy"},
    )  # fmt: skip
    with contextlib.chdir(bench.folder):
        run.run(action)
    assert numpy.load(bench.folder / "again.npy") == 3
    assert not os.access(bench.folder / "kernel", os.X_OK)


def test_runner_goes_before_the_kernel(bench: Any, prefix: Callable[..., Path]) -> None:
    """A program of the environment, with its options; it knows of nothing but what it is given."""
    folder = prefix(before='#!/bin/sh\nset -e\ntest "$1" = -v\nshift\n/bin/cp "$0" ran\nexec "$@"\n')
    source = "ENTRY(M0 *r) { *r = take0(4); *(int *)r->data = 3; }"
    assert bench.call(source, [], [("i32", [])], runner=["before", "-v"])[0] == 3
    assert (bench.folder / "ran").read_bytes() == (folder / "bin" / "before").read_bytes()
    with pytest.raises(MachineFailed, match="the environment has no program after"):
        bench.call(source, [], [("i32", [])], runner=["after"])


def test_kernels_and_their_runners_find_no_program_by_its_name(bench: Any, prefix: Callable[..., Path]) -> None:
    """They see no variable of the machine."""
    variables = "extern char **environ; char *getenv(const char *); int strcmp(const char *, const char *);"
    count = 'int n = 0; while (environ[n]) n++; int empty = !strcmp(getenv("PATH"), "");'
    source = f"{variables} ENTRY(M1 *r) {{ {count} *r = take1(4, 2); AT(int, r, 0) = n; AT(int, r, 1) = empty; }}"
    assert bench.call(source, [], [("i32", [2])])[0].tolist() == [2, 1]
    prefix(before='#!/bin/sh\n/usr/bin/env > seen\nexec "$@"\n')
    bench.call(source, [], [("i32", [2])], runner=["before"])
    seen = (bench.folder / "seen").read_text(encoding="utf-8").splitlines()
    assert {"LC_ALL=C", "PATH="} <= set(seen)
    assert not [line for line in seen if line.startswith(("HOME=", "LD_"))]


@pytest.mark.parametrize("runner", [[], ["before"]])
def test_a_kernel_that_says_what_a_loader_says_is_to_blame(
    bench: Any, prefix: Callable[..., Path], runner: list[str]
) -> None:
    prefix(before='#!/bin/sh\nexec "$@"\n')
    source = """int dprintf(int, const char *); void exit(int);
    ENTRY(M0 *r) { dprintf(2, "kernel: error while loading shared libraries: libc.so.6: No such file\\n"); exit(1); }"""
    with pytest.raises(ActionFailed) as caught:
        bench.call(source, [], [("i32", [])], runner=runner)
    assert caught.value.reason == "the kernel ended by itself, with exit code 1"


def test_a_runner_that_does_not_start_is_no_fault_of_the_kernel(bench: Any, prefix: Callable[..., Path]) -> None:
    change, said = LOST_LIBRARY
    unloadable(prefix(before="") / "bin/before", change)
    with pytest.raises(MachineFailed, match=f"^a program does not start: .*bin/before: {said}"):
        bench.call("ENTRY(M0 *r) {}", [], [("i32", [])], runner=["before"])


# Memory


#: The bytes that never-written memory holds in the first run, and in the words by turns of the second.
FIRST, SECOND = b"\xff" * 8, (b"\x7b" * 8, b"\xfa" * 8)
FLOATS = {"f8": 1e280, "f4": 1e35, "f2": 5e4}


def test_poison_is_nan_then_large_of_both_signs() -> None:
    as_bf16 = [(numpy.frombuffer(word, "u2").astype("u4") << 16).view("f4") for word in (FIRST, *SECOND)]
    as_others = [[numpy.frombuffer(word, stored) for word in (FIRST, *SECOND)] for stored in FLOATS]
    for (first, plus, minus), least in zip([*as_others, as_bf16], [*FLOATS.values(), 1e35], strict=True):
        assert numpy.isnan(first).all()
        assert (plus > least).all()
        assert (minus < -least).all()
        assert numpy.isfinite([plus, minus]).all()


def test_what_is_not_written_fails_in_every_dtype(bench: Any) -> None:
    """Also -1, which is what memory holds in the first run."""
    kernel = bench.compile("ENTRY(M1 *r, M1 *x) { *r = take1(8, 9); r->offset = AT(i64, x, 0); r->size[0] = 1; }")
    for dtype, stored in DTYPES.items():
        size = numpy.dtype(stored).itemsize
        if dtype == "bool":
            continue
        for word, second in enumerate(SECOND):
            with pytest.raises(ActionFailed) as caught:
                bench.call(kernel, [("i64", [word * 8 // size])], [(dtype, [1])])
            assert caught.value.reason == (
                "result 0: 1 of 1 elements of r0.npy depend on memory that nothing has written: "
                f"element 0 has the bits {FIRST[:size].hex()} under one poison, {second[:size].hex()} under another"
            )


UNWRITTEN: dict[str, tuple[str, str]] = {
    "a maximum that drops NaN": (
        "float *p = _mlir_memref_to_llvm_alloc(20), m = 1;"
        "for (int i = 0; i < 5; i++) m = p[i] != p[i] ? m : p[i] > m ? p[i] : m;"
        "*r = take1(4, 1); AT(float, r, 0) = m;",
        "element 0 has the bits 3f800000 under one poison, 7b7b7b7b under another",
    ),
    "beyond a buffer": (
        "*r = take1(4, 1); AT(int, r, 0) = AT(int, x, 5);",
        "element 0 has the bits 7ffa7ffa under one poison, 7af97af9 under another",
    ),
    "before a buffer": (
        "*r = take1(4, 2); AT(int, r, 0) = 3; AT(int, r, 1) = AT(int, x, -1);",
        "1 of 2 elements of r0.npy depend on memory that nothing has written: element 1 has the bits 7ffa7ffa under one",
    ),
    "freed": (
        "int *p = _mlir_memref_to_llvm_alloc(20); p[1] = 5; _mlir_memref_to_llvm_free(p);"
        "*r = take1(4, 1); AT(int, r, 0) = p[1];",
        "element 0 has the bits ffffffff under one",
    ),
    "stack": (
        "volatile int p[64]; *r = take1(4, 1); AT(int, r, 0) = p[(int)AT(float, x, 4)];",
        "element 0 has the bits ffffffff under one",
    ),
    "shape": (
        "char *p = _mlir_memref_to_llvm_alloc(1); *r = take1(4, 3); r->size[0] = *p == -1 ? 1 : 2;"
        "AT(int, r, 0) = AT(int, r, 1) = 0;",
        "the shape of r0.npy depends on memory that nothing has written: 1 under one poison, 2 under another",
    ),
    "crash": (
        "char *p = _mlir_memref_to_llvm_alloc(1); *r = take1(4, 1); if (*p != -1) *(volatile int *)8 = 1;"
        "AT(int, r, 0) = 1;",
        "the kernel depends on memory that nothing has written: under the second poison it crashes (Segmentation fault)",
    ),
    "own end": (
        "void exit(int); char *p = _mlir_memref_to_llvm_alloc(1); *r = take1(4, 1); if (*p != -1) exit(0);"
        "AT(int, r, 0) = 1;",
        "under the second poison the kernel ended by itself, with exit code 0",
    ),
    "bounds": (
        "char *p = _mlir_memref_to_llvm_alloc(1); *r = take1(4, 1); AT(int, r, *p != -1) = AT(int, r, 0) = 1;",
        "under the second poison: the kernel wrote past the end of allocation 5 (4 bytes): byte 1 behind it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNWRITTEN)
def test_results_that_depend_on_memory_that_nothing_has_written(bench: Any, case: str) -> None:
    body, words = UNWRITTEN[case]
    with pytest.raises(ActionFailed) as caught:
        bench.call(f"ENTRY(M1 *r, M1 *x) {{ {body} }}", FIVE, [("i32", [None])])
    assert words in caught.value.reason
    assert not (bench.folder / "r0.npy").exists()


def test_the_second_run_has_fresh_arguments_and_variables(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out where the first takes long, and the result says so."""
    source = """long clock(void); static int calls;
    ENTRY(M1 *r, M1 *x) { *r = *x; AT(float, x, 0) *= 2; AT(float, x, 1) += calls++; while (clock() < AT(float, x, 4)); }"""
    kernel = bench.compile(source)
    assert bench.call(kernel, FIVE, [("f32", [5])])[0].tolist() == [2, 2, 3, 4, 5]
    assert bench.metrics()["poisons"] == 2
    monkeypatch.setattr(driver, "_SECOND_WITHIN", 1)
    bench.call(kernel, [("f32", [1, 2, 3, 4, 1.1e6])], [("f32", [5])])
    assert bench.metrics()["poisons"] == 1


def test_usage_is_counted(bench: Any) -> None:
    source = """ENTRY(M1 *r) {
      void *a = _mlir_memref_to_llvm_alloc(1000); void *b = _mlir_memref_to_llvm_aligned_alloc(64, 500);
      _mlir_memref_to_llvm_free(a); _mlir_memref_to_llvm_free((void *)0); *r = take1(1, 100);
      for (int i = 0; i < 100; i++) AT(char, r, i) = i; }"""
    bench.call(source, [], [("i8", [100])])
    metrics = bench.metrics()
    assert metrics.pop("kernel_ns")[0] > 0
    assert metrics == {"allocations": 3, "peak_bytes": 1500, "leaked_blocks": 1, "leaked_bytes": 500, "poisons": 2}


def test_alignment_is_what_was_asked_for_and_not_more(bench: Any) -> None:
    source = """ENTRY(M1 *r) { *r = take1(8, 12);
      for (int i = 0; i < 12; i++) {
        u64 at = i < 6 ? (u64)_mlir_memref_to_llvm_alloc(i) : (u64)_mlir_memref_to_llvm_aligned_alloc(1ul << i, i);
        AT(i64, r, i) = at & -at; } }"""
    assert bench.call(source, [], [("i64", [12])])[0].tolist() == [16] * 6 + [64, 128, 256, 512, 1024, 2048]


@pytest.mark.parametrize("offset", [0, 16])
def test_parts_of_a_buffer_that_the_kernel_aligned(bench: Any, offset: int) -> None:
    """The rest of the buffer is no padding."""
    source = f"""ENTRY(M1 *r) {{
      char *p = _mlir_memref_to_llvm_alloc(128 + 64), *q = (char *)(((unsigned long)p + 63) & ~63ul);
      for (int i = 0; i < 32; i++) ((int *)q)[i] = i;
      *r = (M1){{p, q, {offset}, {{16}}, {{1}}}}; }}"""
    assert bench.call(source, [], [("i32", [16])])[0].tolist() == list(range(offset, offset + 16))


def test_many_buffers(bench: Any) -> None:
    """Two million allocations, of which few live at once: freed ones do not pile up."""
    source = """ENTRY(M0 *r) { static void *live[64];
      for (i64 i = 0; i < 2000000; i++) {
        void **slot = &live[i * 7 % 64]; _mlir_memref_to_llvm_free(*slot); *slot = _mlir_memref_to_llvm_alloc(i % 90); }
      for (int i = 0; i < 64; i++) _mlir_memref_to_llvm_free(live[i]);
      *r = take0(4); *(int *)r->data = 1; }"""
    assert bench.call(source, [], [("i32", [])])[0] == 1
    assert bench.metrics()["leaked_blocks"] == 0
    assert bench.metrics()["allocations"] == 2000001


def test_memref_copy_between_layouts(bench: Any) -> None:
    """Transposed, reversed, rank 0, empty and contiguous, as the lowering of memref.copy calls it."""
    source = """typedef struct { i64 rank; void *memref; } U; void memrefCopy(i64 element, U *from, U *to);
    static M2 take2(i64 a, i64 b) {
      void *p = _mlir_memref_to_llvm_alloc(a * b * 4); return (M2){p, p, 0, {a, b}, {b, 1}}; }
    ENTRY(struct { M2 t; M2 flip; M2 same; M0 one; M2 none; } *r, M2 *x) {
      i64 a = x->size[0], b = x->size[1];
      r->t = take2(b, a); r->flip = take2(a, b); r->same = take2(a, b); r->one = take0(4); r->none = take2(0, b);
      M2 t = {x->base, x->data, 0, {b, a}, {1, b}}, flip = {x->base, x->data, a * b - 1, {a, b}, {-b, -1}};
      M2 none = {0, 0, 0, {0, b}, {b, 1}}; M0 one = {x->base, x->data, 5};
      memrefCopy(4, &(U){2, &t}, &(U){2, &r->t}); memrefCopy(4, &(U){2, &flip}, &(U){2, &r->flip});
      memrefCopy(4, &(U){2, x}, &(U){2, &r->same}); memrefCopy(4, &(U){0, &one}, &(U){0, &r->one});
      memrefCopy(4, &(U){2, &none}, &(U){2, &r->none}); }"""
    x = numpy.arange(15, dtype="f4").reshape(3, 5)
    shapes = [[5, 3], [3, 5], [3, 5], [], [0, 5]]
    results = bench.call(source, [("f32", x)], [("f32", shape) for shape in shapes])
    for result, expected in zip(results, [x.T, x[::-1, ::-1], x, x[1, 0], x[:0]], strict=True):
        numpy.testing.assert_array_equal(result, expected, strict=True)


# What a kernel can do wrong: its C body, the results declared, and the sentence

#: A buffer that the kernel aligns itself, as MLIR's lowering of memref.alloc does.
ALIGNED = (
    "char *p = _mlir_memref_to_llvm_alloc(20 + 64), *q = (char *)(((unsigned long)p + 63) & ~63ul);"
    "*r = (M1){p, q, 0, {5}, {1}}; for (int i = 0; i < 5; i++) AT(int, r, i) = i;"
)
GOOD = "*r = take1(4, 5); for (int i = 0; i < 5; i++) AT(int, r, i) = i;"
WRONG: dict[str, tuple[str, str, list[int | None], str]] = {
    "past the end": (GOOD + "AT(int, r, 5) = 5;", "i32", [5], "the end of allocation 4 (20 bytes): byte 1 behind it"),
    "past the end by a byte": (GOOD + "((char *)r->data)[20] = -1;", "i32", [5], "wrote past the end of allocation 4"),
    "far past the end": (GOOD + "((char *)r->data)[140] = 0;", "i32", [5], "byte 121 behind it"),
    "before the start": (GOOD + "AT(int, r, -1) = 5;", "i32", [5], "wrote before the start of allocation 4 (20 bytes)"),
    "past the end of what it aligned": (
        ALIGNED + "AT(int, r, 5) = 5;", "i32", [5], "past the end of result 0 (20 bytes): byte 1 behind it"
    ),
    "before the start of what it aligned": (
        ALIGNED + "AT(int, r, -1) = 5;", "i32", [5], "before the start of result 0 (20 bytes): byte 1 in front of it"
    ),
    "past an argument": (GOOD + "AT(float, x, 5) = 5;", "i32", [5], "wrote past the end of argument 0 (20 bytes)"),
    "past a freed buffer": (
        "void *p = _mlir_memref_to_llvm_alloc(9); ((char *)p)[9] = 0; _mlir_memref_to_llvm_free(p);" + GOOD,
        "i32", [5], "past the end of allocation 4 (9 bytes): byte 1 behind it",
    ),
    "after free": (
        "int *p = _mlir_memref_to_llvm_alloc(8); _mlir_memref_to_llvm_free(p); p[1] = 3;" + GOOD,
        "i32", [5], "wrote into allocation 4 (8 bytes) after it had freed it",
    ),
    "double free": (
        "void *p = _mlir_memref_to_llvm_alloc(8); _mlir_memref_to_llvm_free(p); _mlir_memref_to_llvm_free(p);" + GOOD,
        "i32", [5], "frees allocation 4 (8 bytes) twice",
    ),
    "foreign free": (GOOD + "_mlir_memref_to_llvm_free(&x);", "i32", [5], "frees an address that no allocation gave"),
    "inner free": (GOOD + "_mlir_memref_to_llvm_free(&AT(int, r, 1));", "i32", [5], "address inside of allocation 4"),
    "free of an argument": (
        GOOD + "_mlir_memref_to_llvm_free(x->base);", "i32", [5], "frees argument 0 (20 bytes), which is not its own"
    ),
    "freed result": (
        GOOD + "_mlir_memref_to_llvm_free(r->base);", "i32", [5], "r0.npy is in a buffer that the kernel has freed"
    ),
    "size": (GOOD + "r->size[0] = 4;", "i32", [5], "r0.npy has shape 4, declared is 5"),
    "negative size": (GOOD + "r->size[0] = -7;", "i32", [None], "r0.npy has shape -7, declared is ?"),
    "result too long": (GOOD + "r->size[0] = 6;", "i32", [None], "r0.npy reaches beyond its buffer"),
    "result too early": (GOOD + "r->offset = -1;", "i32", [5], "r0.npy reaches beyond its buffer"),
    "huge stride": (GOOD + "r->stride[0] = 1l << 62;", "i32", [5], "an offset or strides that make no sense"),
    "no result": ("", "i32", [5], "fewer results than declared: r0.npy is missing"),
    "no scalar": ("", "i32", [], "fewer results than declared: r0.npy is missing"),
    "higher rank": (GOOD + "r[1] = r[0];", "i32", [5], "wrote past the end of the descriptors of the results"),
    "no boolean": (
        "*r = take1(1, 2); AT(char, r, 0) = 1; AT(char, r, 1) = 2;",
        "bool", [2], "element 1 of r0.npy is 2, which is no boolean",
    ),
    "too much memory": ("_mlir_memref_to_llvm_alloc(-4);" + GOOD, "i32", [5], "asks for 18446744073709551612 bytes"),
    "alignment": ("_mlir_memref_to_llvm_aligned_alloc(48, 4);" + GOOD, "i32", [5], "asks for an alignment of 48 bytes"),
    "on the stack": (
        "int a[5] = {1}; *r = (M1){a, a, 0, {5}, {1}}; __asm__ volatile(\"\" : : \"r\"(a) : \"memory\");",
        "i32", [5], "r0.npy is in memory that is no buffer, argument or constant",
    ),
    "C's own memory": (
        "void *calloc(u64, u64); int *p = calloc(5, 4); *r = (M1){p, p, 0, {5}, {1}};",
        "i32", [5], "r0.npy is in memory that is no buffer, argument or constant",
    ),
    "nowhere": (GOOD + "r->base = r->data = (void *)64;", "i32", [5], "r0.npy is at an address where there is no memory"),
    "beyond a constant": (
        "static const int a[5] = {1}; *r = (M1){a, a, 0, {1 << 30}, {1}};", "i32", [None], "where there is no memory"
    ),
    "own good end": (GOOD + "void exit(int); exit(0);", "i32", [5], "by itself, with exit code 0, and left no out-r0"),
    "own end": (GOOD + "void exit(int); exit(3);", "i32", [5], "the kernel ended by itself, with exit code 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_a_kernel_does_wrong_is_said(bench: Any, case: str) -> None:
    body, dtype, shape, words = WRONG[case]
    with pytest.raises(ActionFailed) as caught:
        bench.call(f"ENTRY(M1 *r, M1 *x) {{ {body} }}", FIVE, [(dtype, shape)])
    assert words in caught.value.reason
    assert not (bench.folder / "r0.npy").exists()


def test_sentences_repeat(bench: Any) -> None:
    """Of several wrong buffers the oldest is named, wherever they happen to lie."""
    body = "for (int i = 0; i < 50; i++) { char *p = _mlir_memref_to_llvm_alloc(i * 999); if (i >= 7) p[i * 999] = 0; }"
    reasons = set()
    for _ in range(5):
        with pytest.raises(ActionFailed) as caught:
            bench.call(f"ENTRY(M1 *r, M1 *x) {{ {body} {GOOD} }}", FIVE, [("i32", [5])])
        reasons.add(caught.value.reason)
    assert reasons == {"the kernel wrote past the end of allocation 11 (6993 bytes): byte 1 behind it"}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("*(volatile int *)8 = 1;", "SIGSEGV"),
        ("volatile int z = 0; volatile int q = 7 / z;", "SIGFPE"),
        ('__asm__ volatile("ud2");', "SIGILL"),
        ("volatile char big[1 << 27]; for (i64 i = 0; i < sizeof big; i += 4096) big[i] = 1;", "SIGSEGV"),
        ('int puts(const char *); void abort(void); puts("sizes do not match"); abort();', "SIGABRT"),
    ],
)
def test_signals_are_crashes(bench: Any, body: str, name: str) -> None:
    with pytest.raises(ActionCrashed) as caught:
        bench.call(f"ENTRY(M1 *r) {{ {body} }}", [], [("i32", [5])])
    assert caught.value.signal == name
    assert caught.value.diagnostics == ("sizes do not match\n" if name == "SIGABRT" else "")
    assert not list(bench.folder.glob("core*"))


def test_a_deep_stack_is_there_whatever_the_shell_says(bench: Any) -> None:
    body = "volatile char big[1 << 25]; for (i64 i = 0; i < sizeof big; i += 4096) big[i] = 1;"
    body += "*r = take0(4); *(int *)r->data = big[0];"
    assert bench.call(f"ENTRY(M0 *r) {{ {body} }}", [], [("i32", [])])[0] == 1


def test_files_that_are_not_there_are_the_machines_fault(bench: Any) -> None:
    bench.call("ENTRY(M0 *r) { *r = take0(4); *(int *)r->data = 1; }", [], [("i32", [])])
    action = Action(
        params={"arguments": [], "results": [{"name": "r", "dtype": "i32", "shape": []}]},
        inputs={"kernel": "kernel"}, outputs={"out-r": "no/such/folder/r.npy"},
    )  # fmt: skip
    with contextlib.chdir(bench.folder), pytest.raises(MachineFailed, match="cannot be written"):
        run.run(action)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name one with --out"),
        (["--out"], "'--out' needs a value"),
        (["--verbose", "1"], "'--verbose' is none of"),
        (["--out", "r.npy"], "should look like f32:8x32:x.npy"),
        (["--out", "f32:8:"], "should look like"),
        (["--out", "f8::r.npy"], "there is no dtype 'f8'"),
        (["--out", "f32:8x:r.npy"], "a size is a number or '?'"),
        (["--out", "f32:-8:r.npy"], "a size is a number or '?'"),
        (["--out", "f32:8,8:r.npy"], "separated by 'x'"),
        (["--out", "f32:99999999999999999999:r.npy"], "too large"),
        (["--out", f"f32:{'x'.join('1' * 33)}:r.npy"], "more than 32 dimensions"),
        (["--out", "f32::r.npy", "--repeat", "0"], "--repeat takes 1 to"),
        (["--out", "f32::r.npy", "--repeat", "many"], "--repeat takes 1 to"),
    ],
)
def test_wrong_command_lines(bench: Any, words: list[str], complaint: str) -> None:
    kernel = bench.link(bench.compile("ENTRY(M0 *r) { *r = take0(4); }"))
    done = subprocess.run([kernel, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (64, 70)
    assert complaint in done.stderr
    assert done.stdout == ""


# What LLVM's own code generator makes

KERNEL = """
func.func private @round(%x: tensor<?x8xf32>) -> tensor<?x8xf32> { return %x : tensor<?x8xf32> }
func.func @main(%x: tensor<?x8xf32>, %i: tensor<3xi8>, %b: tensor<3xi1>, %h: tensor<4xf16>)
    -> (tensor<?x8xf32>, tensor<f32>, tensor<3xi1>, tensor<4xbf16>, tensor<3xi8>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %seven = arith.constant 7 : i8
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %same = func.call @round(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %t = linalg.map { math.tanh } ins(%same : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>)
  %s0 = tensor.empty() : tensor<f32>
  %s1 = linalg.fill ins(%zero : f32) outs(%s0 : tensor<f32>) -> tensor<f32>
  %s = linalg.reduce { arith.addf } ins(%t : tensor<?x8xf32>) outs(%s1 : tensor<f32>) dimensions = [0, 1]
  %m = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %be = tensor.empty() : tensor<3xi1>
  %bo = linalg.map { arith.xori } ins(%b, %m : tensor<3xi1>, tensor<3xi1>) outs(%be : tensor<3xi1>)
  %w = arith.extf %h : tensor<4xf16> to tensor<4xf32>
  %ho = arith.truncf %w : tensor<4xf32> to tensor<4xbf16>
  %table = arith.constant dense<[1, -2, 3]> : tensor<3xi8>
  return %t, %s, %bo, %ho, %table : tensor<?x8xf32>, tensor<f32>, tensor<3xi1>, tensor<4xbf16>, tensor<3xi8>
}
"""
PASSES = (
    "builtin.module(func.func(convert-elementwise-to-linalg),one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map},buffer-deallocation-pipeline,convert-bufferization-to-memref,"
    "func.func(convert-linalg-to-loops,lower-affine),convert-scf-to-cf,expand-strided-metadata,lower-affine,"
    "func.func(llvm-request-c-wrappers),convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,"
    "convert-index-to-llvm,finalize-memref-to-llvm{use-generic-functions},convert-func-to-llvm,convert-cf-to-llvm,"
    "reconcile-unrealized-casts)"
)
COMPILE = """
import sys
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager
with ir.Context():
    module = ir.Module.parse(open(sys.argv[1]).read())
    PassManager.parse(sys.argv[2]).run(module.operation)
    engine = ExecutionEngine(module, opt_level=int(sys.argv[4]), enable_object_dump=True)
    engine.raw_lookup("_mlir_ciface_main")
    engine.dump_to_object_file(sys.argv[3])
"""


@pytest.fixture(scope="session")
def bindings(environments: Any) -> Callable[[Path, int], Path]:
    """Compiles KERNEL by the execution engine of the environment in which kernels are compiled."""
    environment = environments.require("mlir")
    paths = os.pathsep.join(environment.sites(environments.packages))
    python = [*environment.interpreter.command(environments.packages), "-s", "-S"]

    def compile_kernel(folder: Path, level: int) -> Path:
        (folder / "kernel.mlir").write_text(KERNEL, encoding="utf-8")
        words = [*python, "-c", COMPILE, "kernel.mlir", PASSES, "kernel.o", str(level)]
        path = {"PYTHONPATH": paths}
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=path)
        assert done.returncode == 0, done.stderr
        return folder / "kernel.o"

    return compile_kernel


@pytest.mark.parametrize("level", [0, 2])
def test_objects_of_the_execution_engine(bench: Any, bindings: Callable[[Path, int], Path], level: int) -> None:
    x = numpy.linspace(-2, 2, 40, dtype="f4").reshape(5, 8)
    half = numpy.array([1.0, 0.333251953125, -65504.0, numpy.inf], dtype="f2")
    arguments = [("f32", x), ("i8", [1, 2, 3]), ("bool", [True, True, False]), ("f16", half)]
    declared = [("f32", [None, 8]), ("f32", []), ("bool", [3]), ("bf16", [4]), ("i8", [3])]
    t, s, b, h, table = bench.call(bindings(bench.folder, level), arguments, declared, repeat=3)
    numpy.testing.assert_allclose(t, numpy.tanh(x.astype("f8")), rtol=3e-7)
    assert abs(s - t.astype("f8").sum()) < 1e-5
    assert b.tolist() == [False, True, True]
    assert (h.astype("u4") << 16).view("f4").tolist() == [1.0, 0.333984375, -65536.0, numpy.inf]
    assert table.tolist() == [1, -2, 3]
    assert bench.metrics()["leaked_blocks"] == 0


#: Doubles its argument; writes outside of its result where that begins with 7.
SOMETIMES_OUTSIDE = """
ENTRY(M1 *r, M1 *x) {
  *r = take1(4, x->size[0]);
  for (i64 i = 0; i < x->size[0] + (AT(float, x, 0) == 7 ? 1 : 0); i++) AT(float, r, i) = 2 * AT(float, x, i < 2 ? i : 0);
}
"""


def test_each_draw_is_a_call_of_its_own(bench: Any) -> None:
    kernel = bench.link(bench.compile(SOMETIMES_OUTSIDE))
    inputs = {"kernel": kernel.name}
    for draw, values in enumerate(([1, 2], [7, 2], [3, 4])):
        numpy.save(bench.folder / f"{draw}.npy", numpy.float32(values))
        inputs[f"arg-{draw}-x"] = f"{draw}.npy"
    tensor = {"dtype": "f32", "shape": [2]}
    params = {"arguments": [{"name": "x", **tensor}], "results": [{"name": "y", **tensor}], "draws": [0, 1, 2]}
    outputs = {f"out-{draw}-y": f"y{draw}.npy" for draw in range(3)} | {"failures": "failures.json"}
    with contextlib.chdir(bench.folder):
        run.run(Action(params=params, inputs=inputs, outputs=outputs))
    failures = json.loads((bench.folder / "failures.json").read_text())
    assert list(failures) == ["1"]
    assert failures["1"].startswith("run-failed: ")
    assert numpy.load(bench.folder / "y0.npy").tolist() == [2, 4]
    assert (bench.folder / "y1.npy").read_bytes() == b""
    assert numpy.load(bench.folder / "y2.npy").tolist() == [6, 8]
