"""Commands that repeat a test fail where a number is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.reproducer import commands_of
from support.catalogs import catalog


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
    plan = PlannedTests(tests=(), graph=graph, verdicts={"t": judge})
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
