"""The difference of two modules, without what only their text says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.bisect.difference import difference, first_difference
from mlir_matrix.execute.action_cache import LostBlob, Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import PlannedTests

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

    found = first_difference(PlannedTests(tests=(), graph=graph, verdicts=verdicts), done, names, read)
    assert found is not None
    assert found.problem == problem
    assert (found.step, bool(found.lines)) == (("", False) if problem else ("lower", True))


def steps(*texts: str, **files: Sequence[str]) -> tuple[PlannedTests, dict[str, Done], dict[str, bytes]]:
    """Two tests with steps 0, 1 …, the n-th of which gives the n-th text: ``"older newer"``; ``files``: what a last one gives."""
    graph, done, verdicts, blobs = Graph(), dict[str, Done](), dict[str, str](), dict[str, bytes]()
    for place, test in enumerate("ab"):
        last: dict[str, Any] = {}
        given = [{"out": text.split("/")[place]} for text in texts]
        given += [{name: pair[place] for name, pair in files.items()}] if files else []
        for number, outputs in enumerate(given):
            suffixes = {"translated": "ll", "assembly": "s", "object": "o"}
            name = graph.add(
                f"step{number}", tool="t", stage=Stage.LOWER, environment=test, params={"backend": "programs"}, inputs=last,
                outputs={each: f"{each}.{suffixes.get(each, 'mlir')}" for each in outputs},
            )  # fmt: skip
            done[name] = Done(result=Result(outcome={"outcome": "ok"}, outputs=outputs), cached=False)
            blobs |= {text: text.encode() for text in outputs.values()}
            last = {"ir": Produced(name, next(iter(outputs)))}
        # A side branch, which is the same whatever the steps give.
        side = graph.add(
            "reference", tool="r", stage=Stage.LOWER, environment="e", params={}, inputs={}, outputs={"out": "y"}
        )
        done[side] = Done(result=Result(outcome={"outcome": "ok"}, outputs={"out": "y"}), cached=False)
        inputs = {**last, "y": Produced(side, "out")}
        verdicts[test] = graph.add(
            "judge", tool="j", stage=Stage.JUDGE, environment=test, params={}, inputs=inputs, outputs={}
        )
    return PlannedTests(tests=(), graph=graph, verdicts=verdicts), done, blobs


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("a/a", "b/b"), ""),
        (("a/a", "b/c", "d/e"), "step1"),
        # What a step makes equal again made no difference.
        (("a/b", "c/c", "d/e"), "step2"),
        (("a/b", "c/c"), ""),
        (("a/b", "%0 = c/%x = c", "d/e"), "step2"),
    ],
)
def test_the_first_step_after_which_nothing_is_equal_again(texts: tuple[str, ...], expected: str) -> None:
    plan, done, blobs = steps(*texts)
    found = first_difference(plan, done, ("a", "b"), blobs.__getitem__)
    assert (found.step if found else "") == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"translated": "ab", "assembly": "cd", "object": "ef"}, "step0"),
        ({"translated": "aa", "assembly": "cd", "object": "ef"}, "step1 (llc)"),
        ({"translated": "ab", "assembly": "cc", "object": "ef"}, "step1 (llc)"),
    ],
)
def test_programs_of_a_step_that_give_the_same_again(files: dict[str, str], expected: str) -> None:
    plan, done, blobs = steps("x/y", **files)
    found = first_difference(plan, done, ("a", "b"), blobs.__getitem__)
    assert found is not None
    assert found.step == expected


def test_nothing_after_the_last_step_counts() -> None:
    plan, done, blobs = steps("a/b", "c/c", "d/e")
    for last, expected in {"step0": "step0", "step1": "", "step2": "step2"}.items():
        found = first_difference(plan, done, ("a", "b"), blobs.__getitem__, last=last)
        assert (found.step if found else "") == expected


def test_ir_as_one_release_prints_it() -> None:
    """What the newer release has read is compared; what it could not, as it was written."""
    plan, done, blobs = steps("old/new", "c/d")
    first, second = ([name for name in plan.graph.actions if name.startswith(f"step{number}")] for number in (0, 1))

    def printed(*forms: str, outcome: str = "ok") -> tuple[Result, Result]:
        blobs.update((form, form.encode()) for form in forms)
        return (
            Result(outcome={"outcome": outcome}, outputs={"generic": forms[0], "custom": forms[2]}),
            Result(outcome={"outcome": "ok"}, outputs={"generic": forms[1], "custom": forms[3]}),
        )

    def found(*forms: str, **more: str) -> tuple[str, list[str]]:
        prints = {(Produced(first[0], "out"), Produced(first[1], "out")): printed(*forms, **more)}
        different = first_difference(plan, done, ("a", "b"), blobs.__getitem__, prints)
        assert different is not None
        return different.step, [line for line in different.lines if line[0] in "+-"]

    assert second
    assert found("g", "g", "x", "x") == ("step1", ["-c", "+d"])
    assert found("g", "h", "x", "y") == ("step0", ["-x", "+y"])
    assert found("g", "h", "%0 x", "%1 x") == ("step0", ["-g", "+h"]), "the custom form need not show it"
    assert found("g", "g", "x", "x", outcome="lower-failed") == ("step0", ["-old", "+new"])


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_compared(left: str, right: str) -> None:
    assert difference(left, left) == []
    assert all(line[0] in " +-@" for line in difference(left, right))
