"""``matrix cost``: what tests cost, alone and against another side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.workspace import Workspace

LOOPS, VECTORS = (f"mlir/{name}/x86_64-v3/matmul" for name in ("linalg-loops", "linalg-vectorized"))


def costs(workspace: Workspace, *arguments: str | Path, code: int = 0) -> Any:
    """The document of a call of the verb."""
    done = workspace("cost", *arguments, "--format", "json", "--quiet")
    assert done.code == code, done.stdout + done.stderr
    return done.document


def test_a_kernel_is_counted_and_timed(workspace: Workspace) -> None:
    (test,) = costs(workspace, LOOPS)["tests"]
    exact = test["costs"]["exact"]
    multiplications = 65 * 130 * 97
    assert 2 * multiplications < exact["instructions"] < 10 * multiplications
    assert exact["vector_share"] == 0
    assert exact["total_bytes"] >= 65 * 97 * 4
    assert exact["code_bytes"] > 100
    assert test["costs"]["operations"]["linalg"]["linalg.matmul"] == 1
    assert [each["action"] for each in test["costs"]["compile"]][-1] == "object-llc"
    time = test["costs"]["time"]
    assert 0 < time["low"] <= time["ns"] <= time["high"]


def test_another_pipeline_is_compared_in_each_cost(workspace: Workspace) -> None:
    (test,) = costs(workspace, VECTORS, "--against", "linalg-loops", "--no-time", code=1)["tests"]
    exact = test["exact"]
    assert exact["instructions"]["word"] == exact["vector_share"]["word"] == "better"
    assert exact["instructions"]["now"] < exact["instructions"]["before"] / 3
    assert exact["code_bytes"]["word"] == "worse"
    assert test["word"] == "mixed"


def test_equal_programs_are_not_measured(workspace: Workspace) -> None:
    document = costs(workspace, LOOPS, "--against", "linalg-loops")
    assert document["summary"]["by_word"] == {"equal": 1}
    assert "time" not in document["tests"][0]


def test_a_run_records_costs_and_is_compared_with(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    assert workspace("run", LOOPS, "--cost", "--results", file, "--quiet").code == 0
    entry = json.loads(file.read_text())["tests"][0]
    assert entry["costs"]["exact"]["instructions"]
    document = costs(workspace, LOOPS, "--against", file)
    assert document["summary"]["by_word"] == {"same": 1}
    assert document["tests"][0]["untimed"] == "recorded results have no program to time"


def test_what_is_expected_to_fail_is_left_out(workspace: Workspace) -> None:
    both = "mlir/linalg-vectorized/x86_64-v3/{flip,matmul}"
    assert costs(workspace, both, "--against", "linalg-vectorized")["summary"]["by_word"] == {"equal": 1}


def test_what_cannot_be_compared_says_why(workspace: Workspace) -> None:
    failing = "mlir/linalg-vectorized/x86_64-v3/flip"
    done = workspace("cost", failing, "--quiet")
    assert done.code == 1
    assert f"{failing}: lower-failed" in done.stdout
    # A pipeline that the framework does not enter.
    (test,) = costs(workspace, LOOPS, "--against", "tosa-loops", code=1)["tests"]
    assert test["reason"] == "the other side has no such test that runs"
    done = workspace("run", LOOPS, "--cost", "--executor", "bazel")
    assert (done.code, "the executor bazel counts no costs" in done.stderr) == (2, True)
    done = workspace("cost", LOOPS, "--against", "linalg-lops")
    assert done.code == 2
    assert "did you mean 'linalg-loops'" in done.stderr
