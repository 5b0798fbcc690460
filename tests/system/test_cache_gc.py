"""The action cache loses old results, and runs beside that notice nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

from mlir_matrix.execute.eviction import evict
from support.workspace import Workspace, wait_until

OLD = "mlir/linalg-loops/x86_64/a*"
TESTS = (OLD, "mlir/linalg-loops/x86_64/m*", "mlir/linalg-named/x86_64/a*")


def test_a_run_beside_evictions(fresh: Callable[[str], Workspace]) -> None:
    """It executes nothing twice, and every test has the outcome that it has alone."""
    workspace = fresh("home")
    assert workspace.run(OLD).executed > 10
    removed = rounds = 0
    with workspace.start("run", *TESTS, "--format", "json", "--quiet") as process:
        assert wait_until(lambda: process.poll() is not None or workspace.count() > 40)
        while process.poll() is None:
            removed += evict(workspace.folders, max_bytes=0).results
            rounds += 1
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert rounds > 3
    assert removed > 10, "what the run has finished is in use; what it has not looked up is not"
    document = json.loads(out)
    assert document["executed"] == len(set(document["executed_actions"]))

    planned = workspace("cache", "gc", "--max-size", "0", "--dry-run", "--format", "json").document
    assert planned["summary"]["removed"]["results"] == workspace.count() > 0
    done = workspace("cache", "gc", "--max-size", "0", "--format", "json").document
    assert done == {**planned, "dry_run": False}
    assert done["summary"]["kept"] == {"results": 0, "files": 0, "bytes": 0, "in_use": 0}
    alone = workspace.run(*TESTS)
    assert {test["id"]: test["outcome"] for test in document["tests"]} == alone.outcomes
    assert document["executed"] <= alone.executed


def test_a_run_evicts_over_the_limit(fresh: Callable[[str], Workspace]) -> None:
    home = fresh("home").home
    workspace = Workspace(home, more={"MATRIX_CACHE_LIMIT": "1k"})
    first = workspace("run", "mlir/linalg-loops/x86_64/mlp")
    assert first.code == 0
    assert "matrix: the action cache has " in first.stderr
    assert "more than its limit of 0.0 MB (MATRIX_CACHE_LIMIT): runs are using it\n" in first.stderr
    held = set(workspace.kept())
    second = workspace("run", "mlir/bufferize/ir/**")
    assert second.code == 0
    assert "old results removed from the action cache, " in second.stderr
    assert not held & set(workspace.kept())
    wrong = Workspace(home, more={"MATRIX_CACHE_LIMIT": "much"})("run", "mlir/bufferize/ir/**")
    assert wrong.code == 2
    said = "matrix: MATRIX_CACHE_LIMIT: 'much' is not a size; expected bytes, or a number with K, M, G or T, e.g. 10G\n"
    assert wrong.stderr == said
    refused = workspace("cache", "gc", "--max-size", "much")
    assert refused.code == 2
    assert "Invalid value for '--max-size': 'much' is not a size; expected bytes" in refused.stderr
    assert workspace("cache", "gc", "--max-age", "0").code == 2
