"""Splitting the pipeline of a step, finding the same place in that of another release, and naming what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.bisect.steps.evidence import Conclusion, Part
from mlir_matrix.bisect.steps.localize import Localized
from mlir_matrix.bisect.steps.passes import PATTERNS, FoundPass, places_of, split_passes
from mlir_matrix.bisect.steps.report import Report, stepped_document, text_lines, write_report
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import select_tests
from support.recordings import result


@pytest.mark.parametrize(
    ("pipeline", "passes"),
    [
        ("", []),
        ("canonicalize, cse", ["canonicalize", "cse"]),
        ("func.func(a,b{x=1,2 y}),cse", ["func.func(a)", "func.func(b{x=1,2 y})", "cse"]),
        ("gpu.module(gpu.func(a),b)", ["gpu.module(gpu.func(a))", "gpu.module(b)"]),
        ("one-shot-bufferize{a b=(c,d)},cse", ["one-shot-bufferize{a b=(c,d)}", "cse"]),
    ],
)
def test_each_pass_of_a_nested_pipeline_counts(pipeline: str, passes: list[str]) -> None:
    assert split_passes(pipeline) == passes


def test_a_place_is_that_after_the_same_passes() -> None:
    assert places_of(["a", "b{x}", "c"], ["a", "b{y}", "c"]) == [0, 1, 2, 3]
    assert places_of(["a", "c"], ["a", "b", "c"]) == [0, 1, 3]
    assert places_of(["new", "a", "b"], ["a", "b"]) == [0, 0, 1, 2]


@pytest.fixture
def step_is_wrong(current: Session) -> Localized:
    (test,) = select_tests(current, ["mlir/linalg-loops/x86_64/matmul@llvm=22"])
    parts = [Part("program", "program"), Part("fuse", "fuse")]
    conclusion = Conclusion(suspects=(1,), cleared={})
    wrong = result(test.id, "mismatch")
    return Localized(test=test, result=wrong, parts=parts, first=0, cells=[], conclusion=conclusion)


def test_patterns_are_named_with_the_command_that_applies_them(step_is_wrong: Localized, tmp_path: Path) -> None:
    inside = FoundPass(
        passes=(PATTERNS, "canonicalize"),
        problem="no other release runs fuse and is right",
        lines=("-a", "+b"),
        patterns="fuse/patterns.mlir",
        step=("fuse", "--with", "rows=4"),
    )
    report = Report(found=step_is_wrong, inside=inside, path=tmp_path / "report.md", options=["--catalog", "lab"])
    write_report(report)
    (document,) = stepped_document([report])["tests"]
    _, *words = document["inside"]["command"]
    before = str(tmp_path / "before.mlir")
    assert words == ["step", "fuse", "--with", "rows=4", before, "--catalog", "lab", "--pin", "llvm=22"]
    shown = "\n".join(map(str, text_lines(report)))
    assert "\nthe patterns of the step (fuse/patterns.mlir) or pass canonicalize\n" in shown
    assert f" step fuse --with rows=4 {before} --catalog lab --pin llvm=22\n" in shown


@pytest.mark.parametrize(
    ("by", "heading"),
    [
        ("linalg-loops/x86_64@llvm=21", "What the other release makes there, and what this one makes"),
        ("", "What it takes, and what it gives"),
    ],
)
def test_the_heading_of_a_difference_says_between_what(
    step_is_wrong: Localized, tmp_path: Path, by: str, heading: str
) -> None:
    inside = FoundPass(passes=("canonicalize",), by=by, lines=("-a", "+b"))
    path = tmp_path / "report.md"
    write_report(Report(found=step_is_wrong, inside=inside, path=path, options=[]))
    assert f"\n{heading} (names of values are left out):\n" in path.read_text(encoding="utf-8")
