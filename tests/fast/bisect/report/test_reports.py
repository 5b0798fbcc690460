"""Reports of bisections: on a terminal, as Markdown, as a document."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.bisect.bisection import Bisection, ExplainedChange
from mlir_matrix.bisect.difference import StepDifference
from mlir_matrix.bisect.driver import ChangeInterval, changes
from mlir_matrix.bisect.observations import Observation, Point
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.report.document import Reported, bisection_document
from mlir_matrix.bisect.report.markdown import markdown
from mlir_matrix.bisect.report.text import bisection_lines
from mlir_matrix.bisect.signature import signature
from mlir_matrix.results.report.markdown import escaped, page
from mlir_matrix.results.reproducer import Commands
from mlir_matrix.results.results import TestResult
from mlir_matrix.schema.export import adapter

TEST = "mlir/p/t/w"
RELEASES = ("16.0.6", "17.0.6", "18.1.8", "19.1.7")
STEP = {"name": "bufferize", "action": "bufferize-1"}


def seen(point: int, outcome: str, reason: str = "", **more: Any) -> Observation:
    names = {"framework": "mlir", "pipeline": "p", "target": "t", "workload": "w"}
    result = TestResult(
        id=f"{TEST}@llvm={RELEASES[point]}", **names, outcome=Outcome(outcome), stage="lower", expected=True, reason=reason,
        pins={"llvm": RELEASES[point]}, **more,
    )  # fmt: skip
    return Observation(test=TEST, point=point, signature=signature(result), result=result, limit_s=120)


@pytest.fixture
def found() -> Bisection:
    """A pass, a release of which nothing is known, an error, and a crash that is a pass at times."""
    observations = [
        seen(0, "pass"),
        seen(1, "infra-error", "the package | llvm\x1b[2J cannot be had"),
        seen(2, "lower-failed", "bad <op> | [red]", diagnostics="```\nline two\x1b[2J", step=STEP),
        seen(3, "crashed", "SIGSEGV while at stage lower", signal="SIGSEGV", frame="f()", step=STEP),
        seen(3, "pass"),
    ]
    points = [Point(at, [each for each in observations if each.point == at]) for at in range(4)]
    difference = StepDifference(step="bufferize", lines=("@@ -1 +1 @@", "-  [old]", "+  new"), cut=7)
    explained = [
        ExplainedChange(
            change=change,
            difference=difference if number == 0 else None,
            commits="https://x/compare/a...b",
            candidates=(*change.between, change.after),
            descend=["--catalog", "my files", TEST],
            confidence=1.0 if number == 0 else 0.97,
            marked=frozenset({2}) if number == 0 else frozenset(),
            guilty="bufferize",
        )
        for number, change in enumerate(changes([each.known for each in points]))
    ]
    commands = Commands(
        steps={"bufferize": ["mlir-opt linalg.mlir -o out.mlir"]},
        files={"linalg.mlir": b"module {}\n", "x.npy": b"\x93"},
    )
    return Bisection(
        test=TEST,
        axis=Axis(component="llvm", names=RELEASES, left_out=("18.0.0+bindings",)),
        points=points,
        changes=explained,
        commands=commands,
        passing=(0, Commands(steps={"bufferize": ["mlir-opt-16 linalg.mlir"]}, files={})),
        again=["--catalog", "my files", f"{TEST}@llvm=19.1.7"],
    )


def test_on_a_terminal(found: Bisection) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    for line in bisection_lines(found):
        console.print(line if isinstance(line, Text) else Text.from_markup(line))
    said = console.export_text()
    assert "  16 17 18  19\n   A  ?  B A/C\n" in said
    assert "broke between 16.0.6 and 18.1.8  A → B" in said
    assert "in one of 2, 1 of them unknown:\n    17.0.6\n    18.1.8  changes files of the passes of this step\n" in said
    assert "differs in 19.1.7 (97%)  B → A/C\n  18.1.8 is the last release before" in said
    assert "without 18.0.0+bindings: not programs" in said
    assert f"search them: tools/matrix bisect --catalog 'my files' {TEST}\n" in said
    assert "  all steps before bufferize give the same\n" in said
    assert "-  [old]" in said
    assert "[red]" in said
    assert "7 more lines" in said
    assert "\x1b" not in said


def test_markdown(found: Bisection) -> None:
    said = markdown(found, "matrix bisect mlir/p/t/w")
    assert said.startswith(
        "# bufferize crashes by SIGSEGV in f(): broke between llvm 16.0.6 and 18.1.8, differs in llvm 19.1.7 (97%)\n"
    )
    assert "| 17.0.6 | unknown: the package \\| llvm\\x1b\\[2J cannot be had |" in said
    assert (
        "- in one of 2, 1 of them unknown:\n  - 17.0.6\n  - 18.1.8 (**changes files of the passes of this step**)\n"
        in said
    )
    assert "| 19.1.7 | **C** crashed by SIGSEGV at bufferize in f() (1 of 2); **A** pass (1 of 2) |" in said
    assert "```diff\n@@ -1 +1 @@\n-  [old]\n+  new\n… 7 more lines\n```" in said
    assert "tools/matrix run --catalog 'my files' mlir/p/t/w@llvm=19.1.7" in said
    assert "All steps before bufferize give the same.\n" in said
    assert (
        "the programs of llvm 19.1.7 on `PATH`:\n\n```sh\n# bufferize\nmlir-opt linalg.mlir -o out.mlir\n```\n" in said
    )
    assert "The last command shows it: bufferize crashes by SIGSEGV in f().\n" in said
    assert (
        "With llvm 16.0.6, these succeed, with the files in `good`:\n\n```sh\n# bufferize\nmlir-opt-16 linalg.mlir\n"
        in said
    )
    assert "`linalg.mlir`:\n\n```mlir\nmodule {}\n```\n\n`x.npy`: 1 bytes, beside this report\n" in said
    assert "- llvm 19.1.7" in said
    assert "\x1b" not in said
    # What a compiler prints ends no block.
    assert "````text\nbad <op> | [red]\n```\nline two\\x1b[2J\n````" in said


def test_what_was_made_smaller_is_told(found: Bisection) -> None:
    assert "scaled" not in "".join(map(str, bisection_lines(found)))
    assert "made smaller" not in markdown(found, "")
    first = found.points[0].observations[0]
    scaled = Point(0, [replace(first, result=replace(first.result, scaled="a_b from 8 to 2\x1b"))])
    smaller = replace(found, points=[scaled, *found.points[1:]])
    assert "  scaled: a_b from 8 to 2\\x1b" in list(map(str, bisection_lines(smaller)))
    assert "made smaller: a\\_b from 8 to 2\\x1b.\n" in markdown(smaller, "")
    made = bisection_document([Reported(bisection=each, report=Path("r"), log=Path("l")) for each in (found, smaller)])
    assert [each["scaled"] for each in made["tests"]] == ["", "a_b from 8 to 2\x1b"]


def test_markdown_accuses_no_more_than_the_terminal(found: Bisection) -> None:
    """Of three commits, two of which cannot be built, neither names one, however sure it is that it is one of them."""
    commits = Axis(
        component="llvm", noun="commit", names=("a0", "b1", "c2", "d3"), titles=("one", "two", "three", "four")
    )
    lost = [Point(at, [seen(at, "infra-error", "it does not build")]) for at in (1, 2)]
    points = [found.points[0], *lost, found.points[3]]
    (change,) = changes([each.known for each in points])
    told = ExplainedChange(change=change, difference=None, commits="", candidates=[3, 2, 1], confidence=0.99999)
    bisection = replace(found, axis=commits, points=points, changes=[told])
    texts = ["\n".join(map(str, bisection_lines(bisection))), markdown(bisection, "matrix bisect")]
    for text in texts:
        assert "in one of 3, 2 of them unknown:" in text
        assert re.search(r"between (llvm )?a0 and d3", text)
        assert not re.search(r"(?i)(broke|differs)\S* in ", text)
        assert "100" not in text


def test_a_title_names_the_bug(found: Bisection) -> None:
    """Also where a later release differs in another way: the report repeats the newest failure, and names what made that."""
    worst = {"index": [1], "expected": 1.5707963267948966, "actual": "nan"}
    verdict = {"outcome": "mismatch", "outputs": [{"name": "y", "outcome": "mismatch", "reason": "", "worst": [worst]}]}
    crash = seen(3, "crashed", signal="SIGILL")
    failures: list[tuple[Observation, str]] = [
        (seen(3, "mismatch", verdict=verdict), "wrong numbers after bufferize, y[1] is nan instead of 1.5708"),
        (seen(3, "timed-out", step=STEP), "bufferize does not end"),
        (seen(3, "lower-failed", "bufferize: no <op>", step=STEP), "bufferize: no <op>"),
        (replace(crash, result=replace(crash.result, stage=Stage.RUN)), "the kernel crashes by SIGILL"),
    ]  # fmt: skip
    for failure, expected in failures:
        points = [found.points[0], Point(3, [failure])]
        (change,) = changes([each.known for each in points])
        made = replace(found.changes[1], change=replace(change, before=0, after=3), candidates=(3,), confidence=1.0)
        title = markdown(replace(found, points=points, changes=[made]), "").partition("\n")[0]
        assert title == f"# {escaped(expected)}: broke in llvm 19.1.7"


def test_page(found: Bisection) -> None:
    made = page(markdown(found, "matrix bisect '<script>alert(1)</script>'"))
    assert (
        "<title>bufferize crashes by SIGSEGV in f(): broke between llvm 16.0.6 and 18.1.8, differs in llvm 19.1.7 (97%)</title>"
        in made
    )
    assert "<del>-  [old]</del>\n<ins>+  new</ins>" in made
    assert "<td>17.0.6</td>" in made
    assert "<script" not in made
    assert "bad &lt;op&gt; | [red]" in made
    assert not re.search(r"(?:src|href)=", made.replace('href="https://x/compare/a...b"', ""))


HOSTILE = "\x1b[2J![x](http://e.org/x.png) <img src=a> [red]memref<f32> `a` | *b* \\"


def hostile(found: Bisection) -> Bisection:
    """The bisection with such subjects of commits, and such words of a compiler."""
    axis = Axis(component="llvm", noun="commit", names=RELEASES, titles=(HOSTILE,) * 4)
    shown = seen(3, "lower-failed", HOSTILE, step=STEP)
    changes = [replace(each, descend=[HOSTILE]) for each in found.changes]
    points = [*found.points[:3], Point(3, [*found.points[3].observations, shown])]
    return replace(found, axis=axis, points=points, changes=changes, problem=HOSTILE)


def test_text_of_others_does_nothing_on_a_terminal(found: Bisection) -> None:
    console = Console(width=400, record=True, file=io.StringIO())
    for line in bisection_lines(hostile(found)):
        console.print(line if isinstance(line, Text) else Text.from_markup(line))
    said = console.export_text()
    assert "\x1b" not in said
    assert "[red]memref<f32>" in said
    assert re.search(r"18\.1\.8 \\x1b\[2J!.* is the last commit before", said)


def test_text_of_others_is_no_markup(found: Bisection) -> None:
    text = markdown(hostile(found), "matrix bisect")
    prose = re.sub(r"(?ms)^(`{3,}).*?^\1$|`` .* ``", "", text)
    # Also for a reader that takes HTML.
    assert not re.search(r"(?<!\\)(?:!\[|<img|<f32)", prose)
    made = page(text)
    assert not re.search("<(?:img|em|f32|red)", made)
    assert re.findall(r'(?:src|href)="[^"]*"', made) == ['href="https://x/compare/a...b"'] * 2
    shown = escape(HOSTILE.replace("\x1b", "\\x1b"))
    assert made.count(f"<td>19.1.7 {shown}</td>") == 1
    assert (
        f"<title>bufferize crashes by SIGSEGV in f(): broke between llvm 16.0.6 and 18.1.8, differs in llvm 19.1.7 {shown} (97%)<"
        in made
    )
    assert f"<li>to search them: <code>tools/matrix bisect '{shown}'</code></li>" in made.replace("&#x27;", "'")


def test_steps_that_were_not_compared_are_not_the_same(found: Bisection) -> None:
    lost = StepDifference(problem="after bufferize, the cached file 0123 is missing")
    bisection = replace(found, changes=[replace(found.changes[0], difference=lost)])
    words = "he steps were not compared: after bufferize, the cached file 0123 is missing"
    assert f"  t{words}" in list(bisection_lines(bisection))
    assert f"\nT{words}.\n" in markdown(bisection, "")
    change = bisection_document([Reported(bisection=bisection, report=Path("r"), log=Path("l"))])["tests"][0][
        "changes"
    ][0]
    assert (change["step"], change["not_compared"]) == (None, lost.problem)


def test_no_change_is_said_once(found: Bisection) -> None:
    none = replace(found, changes=[], problem="no such change between the probed releases")
    said = [line for line in bisection_lines(none) if "change" in str(line)]
    assert said == ["No such change between the probed releases."]
    assert "\n\nNo such change between the probed releases.\n" in markdown(none, "")
    assert "certain" not in markdown(none, "")
    assert "No such change: what is known of the releases is above." in list(bisection_lines(replace(none, problem="")))
    assert "There is no certain answer: of x." in markdown(replace(found, problem="of x"), "")


@pytest.mark.parametrize(
    ("points", "parents", "culprit", "expected"),
    [
        (["A", "A", "B", "BB"], None, 2, ""),
        (["A", "A", "AB", "BAB"], None, 2, "flaky: of 5 runs with the change, 3 show B"),
        (["A", "A", "AAB", "A"], None, 2, "flaky: of 3 runs with the change, 1 shows B"),
        # The culprit passed each time; what comes after the last failure may be mended.
        (["A", "A", "AA", "AB", "A"], None, 2, "flaky: of 4 runs with the change, 1 shows B"),
        # 2 is on another branch.
        (["A", "B", "AA", "AB"], [[], [0], [0], [1, 2]], 1, "flaky: of 3 runs with the change, 2 show B"),
    ],
)
def test_flaky_tests_are_named(points: list[str], parents: Any, culprit: int, expected: str) -> None:
    """``points``: what was seen at each."""
    shown = {"A": "pass", "B": "crashed"}
    observed = [Point(at, [seen(0, shown[each]) for each in letters]) for at, letters in enumerate(points)]
    names = tuple(f"1{at}.0" for at in range(len(points)))
    after = next(at for at, letters in enumerate(points) if "B" in letters and at >= culprit)
    was, becomes = (observed[at].known or frozenset() for at in (0, after))
    change = ChangeInterval(before=0, after=after, was=was, becomes=becomes)
    bisection = Bisection(
        test=TEST,
        axis=Axis(component="llvm", names=names, parents=parents),
        points=observed,
        changes=[ExplainedChange(change=change, difference=None, commits="", candidates=[culprit])],
    )
    for lines in (bisection_lines(bisection), markdown(bisection, "").splitlines()):
        assert "".join(str(line).strip("- ") for line in lines if "flaky" in str(line)) == expected


def test_a_flaky_compiler_is_named() -> None:
    """That no step gives anything else in the runs that are compared does not acquit them."""
    points = [
        Point(at, [seen(at, outcome) for outcome in outcomes])
        for at, outcomes in enumerate((["pass"], ["pass", "crashed"]))
    ]
    (change,) = changes([each.known for each in points])
    explained = ExplainedChange(change=change, difference=None, commits="", candidates=[1], unstable=["object"])
    bisection = Bisection(
        test=TEST, axis=Axis(component="llvm", names=RELEASES[:2]), points=points, changes=[explained]
    )
    for said in ("\n".join(map(str, bisection_lines(bisection))), markdown(bisection, "")):
        assert said.lower().count("in repeated runs, object gave different outputs for the same input") == 2
        assert "what ran" not in said


def test_a_difference_of_a_step_that_varies_is_named_as_such() -> None:
    """The behaviour is not flaky; the IR of the step that is called the first to differ is."""
    points = [Point(at, [seen(at, outcome)]) for at, outcome in enumerate(("pass", "crashed"))]
    (change,) = changes([each.known for each in points])
    difference = StepDifference(step="dice", lines=("-1", "+2"))
    explained = ExplainedChange(change=change, difference=difference, commits="", candidates=[1], unstable=["dice"])
    bisection = Bisection(
        test=TEST, axis=Axis(component="llvm", names=RELEASES[:2]), points=points, changes=[explained]
    )
    for said in ("\n".join(map(str, bisection_lines(bisection))), markdown(bisection, "")):
        assert said.count("in repeated runs, dice gave different outputs for the same input") == 1


def test_flaky_tests_of_a_scan(found: Bisection) -> None:
    """Between two changes, each counts its own."""
    said = [str(line).strip() for line in bisection_lines(found) if "flaky" in str(line)]
    assert said == ["flaky: of 2 runs with the change, 1 shows A and 1 shows C"]


@given(st.text(alphabet="\\`*_[]()<>|#!&~$:/;-+=.1ab", min_size=1))
def test_a_page_shows_escaped_text_as_it_is(text: str) -> None:
    made = page(f"# t: {escaped(text)}\n\n| a | b |\n|---|---|\n| x | {escaped(text)} |\n\n- x: {escaped(text)}\n")
    shown = escape(text, quote=False)
    assert f"<h1>t: {shown}</h1>" in made
    assert f"<td>{shown}</td>" in made
    assert f"<li>x: {shown}</li>" in made
    assert escaped("a\r\nb\nc") == "a b c"


def test_the_document_has_its_type(found: Bisection) -> None:
    made = bisection_document(
        [Reported(bisection=found, report=Path(f"/{each}.md"), log=Path(f"/{each}")) for each in "ab"]
    )
    adapter("bisect").validate_python(made)
    assert [point["behaviour"] for point in made["tests"][0]["points"]] == ["A", None, "B", "A/C"]
    assert [(each["kind"], each["candidates"]) for each in made["tests"][0]["changes"]] == [
        ("broke", ["17.0.6", "18.1.8"]),
        ("differs", ["19.1.7"]),
    ]
    assert made["summary"] == {"total": 2, "changed": 2}
    assert [(each["report"], each["log"]) for each in made["tests"]] == [("/a.md", "/a"), ("/b.md", "/b")]
