"""Commands that repeat a test, from plans and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.reproducer import Commands, commands_of, pass_names, passes_of
from support.catalogs import catalog

TEXT = "module {}\n"


def of(commands: Any, outcome: str = "codegen-failed") -> tuple[Commands, frozenset[str]]:
    """The commands and passes of a test whose import is no command, and whose compiler failed, having run these."""
    graph = Graph()
    given: dict[str, Any] = {"environment": "e", "params": {}, "stage": Stage.LOWER, "tool": "t"}
    source = graph.add("import", inputs={}, outputs={"out": "linalg.mlir"}, **given)
    step = graph.add("compile", inputs={"ir": Produced(source, "out")}, outputs={"code": "code.bin"}, **given)
    failed = Result(outcome={"outcome": outcome}, metrics={"log": "", "commands": commands})
    done = {
        source: Done(result=Result(outcome={"outcome": "ok"}, outputs={"out": "digest"}), cached=False),
        step: Done(result=failed, cached=False),
    }
    plan = PlannedTests(tests=(), graph=graph, verdicts={"a/b/c/d": step})
    made = commands_of(catalog(), plan, done, "a/b/c/d", {"digest": TEXT.encode()}.__getitem__)
    return made, passes_of(plan, done, "a/b/c/d", "compile")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tool", "in/ir.mlir", "-o", "out/code.bin"], "tool linalg.mlir -o 01-code.bin"),
        (["tool", "--module=in/ir.mlir", "@in/ir.mlir", "f:out/code.bin"], "tool --module=linalg.mlir @linalg.mlir f:01-code.bin"),
        (["tool", "--input=x=@in/ir.mlir"], "tool --input=x=@linalg.mlir"),
        (["tool", "--passes=p{file=in/ir.mlir},q"], "tool '--passes=p{file=linalg.mlir},q'"),
        (["tool", "in/ir.mlir", "prefix-in/ir.mlir", "a b"], "tool linalg.mlir prefix-in/ir.mlir 'a b'"),
    ],
)  # fmt: skip
def test_files_have_names_of_one_folder(words: Sequence[str], line: str) -> None:
    """Also of the step that failed, and where a path is part of an option."""
    found, _ = of([words])
    line = line.replace("linalg.mlir", "00-linalg.mlir")
    assert found.steps == {"compile": [line]}
    assert found.files == {"00-linalg.mlir": TEXT.encode()}


@pytest.mark.parametrize(
    ("commands", "failing", "passing"),
    [
        (["a in/ir.mlir -o out/code.bin", "b in/ir.mlir -o other"], "ab", "a"),
        (["a in/ir.mlir -o x.ll", "b x.ll -S -o y.ll", "c y.ll -o out/code.bin"], "abc", "abc"),
        (["a in/ir.mlir -o x.ll", "b in/ir.mlir"], "b", "b"),
    ],
)
def test_what_only_checks_is_left_out(commands: Sequence[str], failing: str, passing: str) -> None:
    """Nothing reads what it writes. The last line of an action that failed stays."""
    for outcome, expected in (("codegen-failed", failing), ("ok", passing)):
        found, _ = of([each.split() for each in commands], outcome)
        assert "".join(line[0] for line in found.steps["compile"]) == expected


@pytest.mark.parametrize("commands", [None, 7, "tool", {"a": 1}, [], [7, None]])
def test_what_code_under_test_writes_instead_is_no_command(commands: Any) -> None:
    assert of(commands) == (Commands(steps={}, files={}), frozenset())


def test_steps_after_the_last_one_that_is_wanted_are_left_out() -> None:
    """And the files that only they need."""
    graph, done = Graph(), {}
    given: dict[str, Any] = {"environment": "e", "params": {}, "tool": "t"}
    source = graph.add("import", stage=Stage.IMPORT, inputs={}, outputs={"ir": "a.mlir", "x": "x.npy"}, **given)
    done[source] = Done(result=Result(outcome={"outcome": "ok"}, outputs={"ir": "digest", "x": "digest"}), cached=False)
    code = graph.add(
        "compile", stage=Stage.LOWER, inputs={"ir": Produced(source, "ir")}, outputs={"code": "c.bin"}, **given
    )
    run = {"code": Produced(code, "code"), "x": Produced(source, "x")}
    last = graph.add("run/w", stage=Stage.RUN, inputs=run, outputs={}, **given)
    for step, line in ((code, "compile in/ir.mlir -o out/c.bin"), (last, "call in/code.bin in/x.npy")):
        done[step] = Done(result=Result(outcome={"outcome": "ok"}, metrics={"commands": [line.split()]}), cached=False)
    plan = PlannedTests(tests=(), graph=graph, verdicts={"t": last})
    files = {"digest": TEXT.encode()}
    every = commands_of(catalog(), plan, done, "t", files.__getitem__)
    assert (list(every.steps), list(every.files)) == (["compile", "run/w"], ["00-a.mlir", "00-x.npy"])
    some = commands_of(catalog(), plan, done, "t", files.__getitem__, until="compile")
    assert (list(some.steps), list(some.files)) == (["compile"], ["00-a.mlir"])


def test_passes_are_those_of_options() -> None:
    commands = [["mlir-opt", "--pass-pipeline=builtin.module(convert-math-to-llvm,cse)", 7, "a-file"], "no command"]
    assert of(commands)[1] == {"convert-math-to-llvm", "pass-pipeline", "cse"}


def test_passes_of_a_pipeline() -> None:
    text = "func.func(one{a=b,c options={d e=f}}, two),canonicalize, any(three) ,cse,\n  four-5"
    assert pass_names(text) == {"one", "two", "three", "four-5"}
    assert pass_names("") == frozenset()
