"""Workloads in the size bench, from the command line: importers get its dimensions, and hand-written types are rewritten."""

from __future__ import annotations

from support.workspace import Workspace


def test_tests_run_in_another_size(workspace: Workspace) -> None:
    tests = ["mlir/linalg-loops/x86_64/{mlp,conv2d,log}"]
    done = workspace("run", *tests, "--size", "bench", "--format", "json")
    assert done.code == 0, done.stderr
    found = {each["id"]: each for each in done.document["tests"]}
    assert found["mlir/linalg-loops/x86_64/mlp"]["outcome"] == "pass"
    # All elements of the output in the size bench.
    assert found["mlir/linalg-loops/x86_64/mlp"]["metrics"]["elements"] == 32 * 128
    conv2d = found["mlir/linalg-loops/x86_64/conv2d"]
    assert conv2d["outcome"] == "unsupported"
    assert conv2d["reason"].startswith("linalg.mlir of conv2d spells its sizes and is not made in size 'bench': ")
    said = "matrix: --size bench: 1 workload in the size of dims: log (it has no size 'bench')"
    assert said in done.stderr
    assert "did you mean 'bench'?" in workspace("run", *tests, "--size", "bnch").stderr
