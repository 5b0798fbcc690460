"""FileCheck as a step and as the verdict of an IR test: one engine, so one set of rules."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

IR = "func.func @main() {\n  %0 = a.one\n  %1 = a.two\n  return\n}\n"


@pytest.fixture(params=["check", "irtest"])
def held(request: pytest.FixtureRequest, environments: Any, tmp_path: Path) -> Any:
    """Hold IR against directives, as the step does and as the IR test does."""
    directives, outputs = (
        ("directives", {"ir": "out.mlir"}) if request.param == "check" else ("test", {"report": "report.json"})
    )

    def perform(text: str, ir: str = IR) -> Any:
        return environments.perform(
            "filecheck", request.param, tmp_path / "a", params={}, inputs={"ir": ir, directives: text}, outputs=outputs
        )

    return perform


def test_what_is_there_passes(held: Any) -> None:
    done = held("// CHECK: a.one\n// CHECK-NEXT: a.two\n// CHECK-NOT: a.three\n")
    assert done.ok, done.outcome
    if "ir" in done.outputs:
        assert done.text("ir") == IR
    else:
        assert done.text("report") == '{"directives": 3}\n'


@pytest.mark.parametrize(
    ("directives", "line"),
    [
        ("// CHECK: a.three", 1),
        ("// CHECK: a.two\n// CHECK: a.one", 2),
        ("// CHECK: a.one\n// CHECK-NEXT: return", 2),
        ("// CHECK-NOT: a.two", 1),
        ("// CHECK: a.one\n// CHECK-NOT: a.two\n// CHECK: return", 2),
    ],
)
def test_what_is_not_so_fails_with_the_line(held: Any, directives: str, line: int) -> None:
    done = held(directives)
    assert done.outcome["outcome"] != "ok"
    assert f"line {line} of the directives" in done.outcome["reason"]
    assert "error:" in done.outcome["diagnostics"]
    assert "\x1b" not in done.outcome["diagnostics"]
    assert "moving to" not in done.outcome["diagnostics"]


@pytest.mark.parametrize("directives", ["", "// nothing to see\n", "// CHEKC: a.one\n"])
def test_no_directives_is_a_failure(held: Any, directives: str) -> None:
    done = held(directives)
    assert done.outcome["reason"].endswith("no CHECK lines: nothing would be tested")


@pytest.mark.parametrize(
    ("directives", "place"),
    [
        # After a label, whose lines the package does not count.
        ("// CHECK-LABEL: @second\n// CHECK: a.two\n// CHECK: a.one", "7:1\n  return\n^"),
        # What a CHECK-NOT finds before the position.
        ("// CHECK-NOT: a.one\n// CHECK: @second", "2:8\n  %0 = a.one\n       ^^^^^"),
        ("// CHECK: return\n// CHECK: a.three", "4:1\n}\n^"),
    ],
)
def test_positions_are_those_of_the_ir(held: Any, directives: str, place: str) -> None:
    ir = "func.func @main() {\n  %0 = a.one\n  return\n}\nfunc.func @second() {\n  %1 = a.two\n  return\n}\n"
    said = held(directives, ir=ir).outcome["diagnostics"]
    assert re.search(rf"in/ir\S*:{re.escape(place)}\n", said), said


def test_no_ir_is_a_failure(held: Any) -> None:
    done = held("// CHECK-NOT: a.one\n", ir="")
    assert done.outcome["outcome"] != "ok"
    assert "is empty" in done.outcome["reason"]


def test_a_broken_pattern_is_told(held: Any) -> None:
    done = held("// CHECK: {{a(}}\n")
    assert done.outcome["outcome"] != "ok"


@pytest.fixture(params=["filecheck", "codegen"])
def checked(request: pytest.FixtureRequest, environments: Any, tmp_path: Path) -> Any:
    """Run an IR test by the FileCheck in Python, and by that of LLVM."""
    calls = count()
    owner = {"filecheck": "llvm 22.1.8"} if request.param == "codegen" else {}

    def perform(text: str, *runs: list[str], irs: tuple[str, ...] = (IR,)) -> Any:
        lines = [{"line": number, "options": options} for number, options in enumerate(runs, 1)]
        named = {f"ir-{number}" if number else "ir": ir for number, ir in enumerate(irs)}
        return environments.perform(
            request.param, "irtest", tmp_path / str(next(calls)), params={**owner, **({"runs": lines} if runs else {})},
            inputs={**named, "test": text}, outputs={"report": "report.json"},
        )  # fmt: skip

    perform.owner = "of llvm 22.1.8" if owner else "in Python"  # type: ignore[attr-defined]
    return perform


def test_each_run_line_has_its_prefixes_and_ir(checked: Any) -> None:
    directives = "// CHECK: a.one\n// TWO: a.two\n// TWO-NOT: a.one\n"
    done = checked(directives, [], ["--check-prefixes=CHECK,TWO"], irs=(IR, IR))
    assert done.text("report") == '{"directives": 4}\n'


def test_the_run_line_and_the_filecheck_that_fail_are_named(checked: Any) -> None:
    options = ["--check-prefixes=TWO", "--check-prefixes=CHECK"]
    done = checked("// CHECK: a.one\n// TWO: a.three\n", [], options, irs=(IR, IR))
    begin = f"FileCheck {checked.owner}: RUN line 2: the IR does not match line 2 of the directives: "
    assert done.outcome["reason"].startswith(begin), done.outcome
    done = checked("// CHEKC: a.one\n")
    assert done.outcome["reason"] == f"FileCheck {checked.owner}: no CHECK lines: nothing would be tested"
    done = checked("// CHECK: a.one\n", ["--check-prefix=TWO"])
    assert "RUN line 1: no TWO lines: nothing would be tested" in done.outcome["reason"]
    done = checked("// CHECK: a.one\n", ["--check-prefixes=CHECK,TYPO"])
    assert "TYPO" in done.outcome["reason"], "a misspelt prefix checks nothing"
    done = checked("// TWO-NOT: a.three\n", ["--check-prefix=TWO"])
    assert "RUN line 1: no directive requires anything" in done.outcome["reason"]


def test_llvms_own_knows_numeric_variables(checked: Any) -> None:
    done = checked("// CHECK: [[#N:]] x\n// CHECK: [[#N+1]] x\n", irs=("3 x\n4 x\n",))
    assert done.ok == ("llvm" in checked.owner), done.outcome
    if not done.ok:
        malformed = "line 1 of the directives is malformed: Invalid substitution block, unknown format: [[#N:]]"
        assert done.outcome["reason"] == f"FileCheck in Python: {malformed}"
