"""Commands that repeat a test, from plans and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.bisect.commands import Commands, commands_of, passes_of
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import Plan
from support.catalogs import catalog

TEXT = "module {}\n"


def of(commands: Any) -> tuple[Commands, frozenset[str]]:
    """The commands and passes of a test whose import is no command, and whose compiler failed, having run these."""
    graph = Graph()
    given: dict[str, Any] = {"environment": "e", "params": {}, "stage": Stage.LOWER, "tool": "t"}
    source = graph.add("import", inputs={}, outputs={"out": "linalg.mlir"}, **given)
    step = graph.add("compile", inputs={"ir": Produced(source, "out")}, outputs={"code": "code.bin"}, **given)
    failed = Result(outcome={"outcome": "codegen-failed"}, metrics={"log": "", "commands": commands})
    done = {
        source: Done(result=Result(outcome={"outcome": "ok"}, outputs={"out": "digest"}), cached=False),
        step: Done(result=failed, cached=False),
    }
    plan = Plan(tests=(), graph=graph, verdicts={"a/b/c/d": step})
    made = commands_of(catalog(), plan, done, "a/b/c/d", {"digest": TEXT.encode()}.__getitem__)
    return made, passes_of(plan, done, "a/b/c/d", "compile")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tool", "in/ir.mlir", "-o", "out/code.bin"], "tool linalg.mlir -o 01-code.bin"),
        (["tool", "--module=in/ir.mlir", "@in/ir.mlir", "f:out/code.bin"], "tool --module=linalg.mlir @linalg.mlir f:01-code.bin"),
        (["tool", "--input=x=@in/ir.mlir"], "tool --input=x=@linalg.mlir"),
        (["tool", "in/ir.mlir", "prefix-in/ir.mlir", "a b"], "tool linalg.mlir prefix-in/ir.mlir 'a b'"),
    ],
)  # fmt: skip
def test_files_have_names_of_one_folder(words: Sequence[str], line: str) -> None:
    """Also of the step that failed, and where a path is part of an option."""
    found, _ = of([words])
    line = line.replace("linalg.mlir", "00-linalg.mlir")
    assert found.steps == {"compile": [line]}
    assert found.files == {"00-linalg.mlir": TEXT}


@pytest.mark.parametrize("commands", [None, 7, "tool", {"a": 1}, [], [7, None]])
def test_what_code_under_test_writes_instead_is_no_command(commands: Any) -> None:
    assert of(commands) == (Commands(steps={}, files={}), frozenset())


def test_passes_are_those_of_options() -> None:
    commands = [["mlir-opt", "--pass-pipeline=builtin.module(convert-math-to-llvm,cse)", 7, "a-file"], "no command"]
    assert of(commands)[1] == {"convert-math-to-llvm", "pass-pipeline", "cse"}
