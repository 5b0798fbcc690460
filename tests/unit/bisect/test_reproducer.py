"""Commands that repeat a test, from plans and results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.bisect.reproducer import Commands, commands_of, passes_of
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import Plan
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
    plan = Plan(tests=(), graph=graph, verdicts={"a/b/c/d": step})
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
    plan = Plan(tests=(), graph=graph, verdicts={"t": last})
    files = {"digest": TEXT.encode()}
    every = commands_of(catalog(), plan, done, "t", files.__getitem__)
    assert (list(every.steps), list(every.files)) == (["compile", "run/w"], ["00-a.mlir", "00-x.npy"])
    some = commands_of(catalog(), plan, done, "t", files.__getitem__, until="compile")
    assert (list(some.steps), list(some.files)) == (["compile"], ["00-a.mlir"])


@pytest.mark.parametrize(("actual", "code"), [([1.0, 2.0, np.nan], 0), ([1.0, 2.5, np.nan], 1)])
def test_files_that_a_program_wrote_are_compared(tmp_path: Path, actual: list[float], code: int) -> None:
    """Its input and what is right are files beside the commands; the last one fails where a number is wrong, and names it."""
    graph = Graph()
    given: dict[str, Any] = {"environment": "e", "stage": Stage.RUN}
    inputs = graph.add("inputs", tool="inputs", params={}, inputs={}, outputs={"x": "x.npy", "y": "y.npy"}, **given)
    run = graph.add(
        "run/w", tool="command", params={}, inputs={"arg-x": Produced(inputs, "x")}, outputs={"out-y": "y.npy"}, **given
    )
    output = {"name": "y", "dtype": "f32", "compare": "numeric", "atol": 1e-3, "rtol": 1e-3}
    read = {"actual-y": Produced(run, "out-y"), "expected-y": Produced(inputs, "y")}
    judge = graph.add(
        "judge", tool="judge", params={"outputs": [output]}, inputs=read, outputs={"v": "v.json"}, **given
    )
    line = ["cp", "in/arg-x.npy", "out/y.npy"]
    done = {
        inputs: Done(result=Result(outcome={"outcome": "ok"}, outputs={"x": "1", "y": "2"}), cached=False),
        run: Done(
            result=Result(outcome={"outcome": "ok"}, outputs={"out-y": "1"}, metrics={"commands": [line]}), cached=False
        ),
        judge: Done(result=Result(outcome={"outcome": "ok"}), cached=False),
    }
    files = {}
    for digest, values in (("1", actual), ("2", [1.0, 2.0, np.nan])):
        np.save(tmp_path / "saved.npy", np.asarray(values, np.float32))
        files[digest] = (tmp_path / "saved.npy").read_bytes()
    plan = Plan(tests=(), graph=graph, verdicts={"t": judge})
    made = commands_of(catalog(), plan, done, "t", files.__getitem__)
    assert made.compares
    assert list(made.steps) == ["run/w"]
    for name, data in made.files.items():
        (tmp_path / name).write_bytes(data)
    script = "\n".join(made.steps["run/w"])
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    ran = subprocess.run(
        ["/bin/sh", "-e"], input=script, text=True, cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert ran.returncode == code, ran.stderr
    assert ("2.5" in ran.stderr) == bool(code)


def test_passes_are_those_of_options() -> None:
    commands = [["mlir-opt", "--pass-pipeline=builtin.module(convert-math-to-llvm,cse)", 7, "a-file"], "no command"]
    assert of(commands)[1] == {"convert-math-to-llvm", "pass-pipeline", "cse"}
