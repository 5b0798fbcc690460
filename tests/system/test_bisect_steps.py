"""``matrix bisect --over steps``: which step of a failing test is wrong, without another release of the whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.workspace import REPOSITORY, Workspace

TEST = "mlir/wrong-loops/x86_64/softmax"
FAILS = "mlir/failing-loops/x86_64/softmax"
STEP = """\
description: As linalg-to-loops, but the default release divides where it must multiply, and the other way round.
environment: mlir
accepts: [bufferized]
gives: loops
variants:
  - carries: {llvm: tm-tensor}
    patterns: wrong.mlir
    passes: func.func(convert-linalg-to-loops,lower-affine),canonicalize,cse
  - when: {llvm: ">=15"}
    passes: func.func(convert-linalg-to-loops,lower-affine),canonicalize,cse
"""
PATTERN = """\
pdl.pattern @wrong : benefit(1) {
  %type = type
  %a = operand
  %b = operand
  %op = operation "arith.divf"(%a, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  rewrite %op {
    %new = operation "arith.mulf"(%a, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    replace %op with %new
  }
}
"""


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with a pipeline in which one step is wrong, in one release."""
    folder = tmp_path_factory.mktemp("wrong")
    step, pipelines = folder / "recipes" / "steps" / "wrong-loops", folder / "recipes" / "pipelines"
    step.mkdir(parents=True)
    pipelines.mkdir()
    (step / "step.yaml").write_text(STEP)
    (step / "wrong.mlir").write_text(PATTERN)
    fails = folder / "recipes" / "steps" / "failing-loops"
    fails.mkdir()
    (fails / "step.yaml").write_text(
        STEP.replace("    patterns: wrong.mlir\n", "").replace(
            "canonicalize,cse", "canonicalize,transform-interpreter", 1
        )
    )
    right = (REPOSITORY / "recipes" / "pipelines" / "linalg-loops.yaml").read_text()
    (pipelines / "wrong-loops.yaml").write_text(right.replace("- linalg-to-loops", "- wrong-loops"))
    (pipelines / "failing-loops.yaml").write_text(right.replace("- linalg-to-loops", "- failing-loops"))
    return folder


def test_the_step_and_what_is_wrong_in_it_are_named(workspace: Workspace, wrong: Path) -> None:
    done = workspace("bisect", TEST, "--over", "steps", "--catalog", wrong, "--format", "json", "--quiet")
    assert done.code == 0, done.stderr
    (found,) = done.document["tests"]
    assert (found["suspects"], found["certain"]) == (["wrong-loops"], True)
    assert found["inside"]["passes"] == ["the patterns of the step"]
    assert [line[1:].split()[2] for line in found["inside"]["difference"] if line[0] in "+-"] == [
        "arith.divf",
        "arith.mulf",
    ]
    report = Path(found["report"])
    assert found["inside"]["command"][1:4] == ["step", "wrong-loops", str(report.parent / "before.mlir")]
    text = report.read_text()
    assert "step wrong-loops is wrong" in text
    assert f"bisect {TEST} --over steps --catalog {wrong}\n" in text
    assert {"before.mlir", "after.mlir", "report.html"} <= {path.name for path in report.parent.iterdir()}
    shown = workspace("bisect", TEST, "--over", "steps", "--catalog", wrong, "--quiet")
    assert re.search(r"^wrong-loops +.*wrong", shown.stdout, re.MULTILINE)


def test_of_a_step_that_fails_the_pass_is_named(workspace: Workspace, wrong: Path) -> None:
    done = workspace("bisect", FAILS, "--over", "passes", "--catalog", wrong, "--quiet")
    assert done.code == 0, done.stderr
    assert "step failing-loops is wrong" in done.stdout
    assert "pass transform-interpreter" in done.stdout.splitlines()


def test_another_release_in_this_step_alone_is_right(workspace: Workspace, wrong: Path) -> None:
    done = workspace("run", TEST, "--catalog", wrong, "--pin-step", "wrong-loops:llvm=22", "--quiet")
    assert done.code == 0, done.stdout + done.stderr


def test_a_run_says_which_step_is_wrong(workspace: Workspace, wrong: Path) -> None:
    done = workspace("run", TEST, "--catalog", wrong, "--explain-failures", "--quiet")
    assert done.code == 1
    assert f"next:   tools/matrix bisect --over steps --catalog {wrong} {TEST}" in done.stdout
    assert f"{TEST}: step wrong-loops is wrong, in the patterns of the step" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mlir/linalg-loops/x86_64/softmax",), "passes; --over steps looks for the step that makes a test fail"),
        (
            ("mlir/linalg-to-loops/ir/matmul",),
            "mlir/linalg-to-loops/ir/matmul tests a step by itself; --over steps takes",
        ),
        (("mlir/linalg-loops/x86_64/softmax", "--good", "22"), "--over steps looks at one version; leave out --good"),
        (("mlir/linalg-loops/x86_64/softmax", "--by", "output"), "--over steps looks at one version; leave out --by"),
    ],
)
def test_what_has_no_wrong_step(workspace: Workspace, arguments: tuple[str, ...], said: str) -> None:
    done = workspace("bisect", *arguments, "--over", "steps", "--quiet")
    assert done.code == 2
    assert said in done.stderr
