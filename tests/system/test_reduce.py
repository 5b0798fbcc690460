"""``matrix reduce``: the smallest program that fails as a test does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support import crashes, planted
from support.workspace import Workspace, wait_until

(CRASH,) = (each for each in crashes.PASS_FAULTS if each.name == "basis-of-zero")


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with compilers that make mistakes, and with a program that crashes one of a release."""
    folder = tmp_path_factory.mktemp("bad")
    planted.write_compilers(folder)
    CRASH.write(folder)
    return folder


def reduced(workspace: Workspace, *arguments: str | Path) -> dict[str, Any]:
    """Reduce a test, which must succeed; the entry of the document."""
    done = workspace("reduce", *arguments, "--format", "json", "--quiet")
    assert done.code == 0, done.stdout + done.stderr
    (found,) = done.document["tests"]
    assert (found["complete"], found["verified"]) == (True, True)
    return dict(found)


@pytest.mark.parametrize(
    ("mistake", "outcome"),
    [
        ("swap-operands", "mismatch"),
        # A smaller program could read such memory by itself.
        ("stale-buffer", "run-failed"),
    ],
)
def test_a_miscompile_becomes_a_workload_that_fails_for_the_same_mistake(
    mistake: str, outcome: str, workspace: Workspace, bad: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    planted_one = f"planted-{mistake}"
    failing = f"mlir/{planted_one}/x86_64/softmax"
    found = reduced(workspace, failing, "--catalog", bad, "--out", tmp_path / "out", "--write", mine)
    assert found["outcome"] == outcome
    assert found["good"]
    assert found["after"]["operations"] <= 5 < found["before"]["operations"]
    (name,) = (each.name for each in (mine / "matrix" / "workloads").iterdir())
    tests = [f"mlir/{pipeline}/x86_64/{name}" for pipeline in (planted_one, planted.GOOD)]
    catalogs = ("--catalog", bad, "--catalog", mine)
    assert workspace("plan", *tests, *catalogs).code == 0
    done = workspace("run", *tests, *catalogs, "--format", "json", "--quiet")
    assert {each["id"]: each["outcome"] for each in done.document["tests"]} == dict(
        zip(tests, (outcome, "pass"), strict=True)
    )


def test_a_crash_keeps_its_signature(workspace: Workspace, bad: Path, tmp_path: Path) -> None:
    found = reduced(workspace, CRASH.test, *CRASH.pins, "--catalog", bad, "--out", tmp_path / "out")
    assert found["before"]["operations"] > crashes.PADDING
    assert found["after"]["operations"] <= 5
    assert "SIGFPE" in found["behaviour"]
    assert "affine.delinearize_index" in Path(found["file"]).read_text()
    assert found["passes"] == ["canonicalize"]
    assert [line.split()[0] for line in found["plain"]] == ["mlir-opt"]


def test_a_killed_reduction_goes_on_and_another_waits_for_none(workspace: Workspace, bad: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (CRASH.test, "--catalog", bad, "--out", out)
    log = out / "log.ndjson"
    with workspace.start("reduce", *words, "--quiet", "--jobs", "1") as process:
        assert wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") >= 3)
        os.kill(process.pid, signal.SIGSTOP)
        second = workspace("reduce", *words)
        os.killpg(process.pid, signal.SIGKILL)
    assert second.code == 2
    assert "another process reduces this test" in second.stderr
    known = log.read_bytes().rpartition(b"\n")[0]
    found = reduced(workspace, *words)
    assert found["after"]["operations"] <= 5
    # What was tested is not tested again.
    assert log.read_bytes().startswith(known)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mlir/linalg-loops/x86_64/softmax",), "passes"),
        (("mlir/linalg-loops/x86_64/softmacks",), "did you mean"),
        (("mlir/linalg-loops/x86_64/*",), "one test"),
    ],
)
def test_what_cannot_be_reduced(workspace: Workspace, words: tuple[str, ...], said: str) -> None:
    done = workspace("reduce", *words, "--quiet")
    assert done.code == 2
    assert said in done.stderr
