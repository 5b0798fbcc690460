"""The difference of two modules, without what only their text says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.bisect.difference import difference, first_difference
from mlir_matrix.execute.action_cache import LostBlob, Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import Plan

MODULE = """\
#map = affine_map<(d0) -> (d0)>
module {
  func.func @main(%arg0: memref<4xf32>) -> f32 {
    %c0 = arith.constant 0 : index
    %0 = memref.load %arg0[%c0] {alignment = 4 : i64} : memref<4xf32>
    %1 = math.ceil %0 : f32
    %2 = arith.subf %0, %1 : f32
    return %2 : f32
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("%1", "%ceil"), ("%arg0", "%x#0"), ("{alignment", "<{alignment"), (" : f32\n", "  :  f32\n"), ("#map", "#map7")],
)
def test_names_and_spelling_are_no_difference(old: str, new: str) -> None:
    other = MODULE.replace(old, new).replace("i64}", "i64}>" if new.startswith("<{") else "i64}")
    assert other != MODULE
    assert difference(MODULE, other) == []


def test_a_new_operation_is_the_only_line() -> None:
    """Though all values after it have other names."""
    other = MODULE.replace("%1 = math.ceil %0", "%1 = math.absf %0 : f32\n    %2 = math.ceil %1")
    other = other.replace("%2 = arith.subf %0, %1", "%3 = arith.subf %0, %2").replace("return %2", "return %3")
    assert [line for line in difference(MODULE, other) if line[0] in "+-"] == ["+    % = math.absf % : f32"]


def test_operands_count_where_nothing_else_differs() -> None:
    lines = difference(MODULE, MODULE.replace("subf %0, %1", "subf %1, %0"))
    assert [line.strip() for line in lines if line[0] in "+-"] == [
        "-    %4 = arith.subf %2, %3 : f32", "+    %4 = arith.subf %3, %2 : f32",
    ]  # fmt: skip


def test_attributes_and_types_count() -> None:
    assert difference(MODULE, MODULE.replace("alignment = 4", "alignment = 8"))
    assert difference(MODULE, MODULE.replace("memref<4xf32>", "memref<5xf32>"))


LLVM = """\
; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
@text = constant [4 x i8] c"a; b"
define float @f(float %0) #0 {
  br label %2

2:                                                ; preds = %1
  %3 = call float @llvm.ceil.f32(float %0), !dbg !7
  ret float %3
}
declare float @llvm.ceil.f32(float) #1
attributes #0 = { nounwind }
attributes #1 = { nocallback memory(none) }
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%3", "%ceil"), ("preds = %1", "preds = %9"), ("%2\n\n2:", "%next\n\nnext:"), ("!7", "!12"),
        ("Module'", "'"), ("Module\"", '"'), ("callback mem", "callback nofree mem"), ("#0", "#4"), ("#1", "#2"),
    ],
)  # fmt: skip
def test_numbers_labels_and_intrinsics_of_llvm_are_no_difference(old: str, new: str) -> None:
    other = LLVM.replace(old, new)
    assert other != LLVM
    assert difference(LLVM, other, "ll") == []


@pytest.mark.parametrize(
    ("old", "new"), [("ceil", "floor"), ("nounwind", "noinline"), ("a; b", "a; c"), ("float %0)", "half %0)")]
)
def test_what_llvm_ir_says_counts(old: str, new: str) -> None:
    assert difference(LLVM, LLVM.replace(old, new), "ll")


ASSEMBLY = """\
\t.file\t"LLVMDialectModule"
f:                                      # @f
# %bb.0:
\tjmp\t.LBB0_1
.LBB0_1:                                # Parent Loop
\tmovss\t.LCPI0_0(%rip), %xmm1           # xmm1 = [1.0E+0]
\tmov\tx0, #1
\t.ident\t"LLVM 21"
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("BB0_1", "BB1_7"), ("xmm1", "xmm2"), ("LLVM 21", "LLVM 22"), ("# Parent Loop", "## no"), ("mov\t", "mov  ")],
)
def test_labels_registers_and_comments_of_assembly_are_no_difference(old: str, new: str) -> None:
    other = ASSEMBLY.replace(old, new)
    assert other != ASSEMBLY
    assert difference(ASSEMBLY, other, "s") == []


@pytest.mark.parametrize(("old", "new"), [("movss", "movsd"), ("#1", "#2"), ("jmp", "je")])
def test_instructions_and_constants_count(old: str, new: str) -> None:
    assert difference(ASSEMBLY, ASSEMBLY.replace(old, new), "s")


@pytest.mark.parametrize(
    ("names", "lost", "problem"),
    [
        (("a", "b"), "", ""),
        (("a", "x"), "", "the plan has no test x"),
        (("y", "x"), "", "the plan has no test y and no test x"),
        (("a", "b"), "1b", "after import, the cached file 1b was lost"),
    ],
)
def test_steps_that_cannot_be_compared_are_not_the_same(names: tuple[str, str], lost: str, problem: str) -> None:
    """Also where a later step gives something else: it is not the first one."""
    graph, done, verdicts = Graph(), dict[str, Done](), dict[str, str]()
    for test in "ab":
        given: dict[str, Any] = {"environment": "e", "params": {"test": test}, "stage": Stage.LOWER, "tool": "t"}
        first = graph.add("import", inputs={}, outputs={"out": "linalg.mlir"}, **given)
        last = graph.add("lower", inputs={"ir": Produced(first, "out")}, outputs={"out": "llvm.mlir"}, **given)
        verdicts[test] = graph.add(
            "judge", inputs={"ir": Produced(last, "out")}, outputs={}, **{**given, "stage": Stage.JUDGE}
        )
        for number, name in enumerate((first, last), 1):
            result = Result(outcome={"outcome": "ok"}, outputs={"out": f"{number}{test}"})
            done[name] = Done(result=result, cached=False)

    def read(digest: str) -> bytes:
        if digest == lost:
            raise LostBlob(digest, "was lost")
        # The first step gives other bytes, but the same IR.
        return (f"%{digest[1]} = a.b" if digest[0] == "1" else digest).encode()

    found = first_difference(Plan(tests=(), graph=graph, verdicts=verdicts), done, names, read)
    assert found is not None
    assert found.problem == problem
    assert (found.step, bool(found.lines)) == (("", False) if problem else ("lower", True))


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_compared(left: str, right: str) -> None:
    assert difference(left, left) == []
    assert all(line[0] in " +-@" for line in difference(left, right))
