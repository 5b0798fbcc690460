"""``--changed-since`` on the command line: changes of the program itself, runs that nothing affects, and refusals.

And what changed where tests fail that passed before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.machine import git
from support.spoiling import edit
from support.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
SELECTED = ("smoke", "jax/*/x86_64/{mlp,topk}", "mlir/linalg-to-loops/**")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with program and catalog, committed."""
    folder = tmp_path_factory.mktemp("changed") / "checkout"
    for name in ("matrix", "recipes", "toolchains", "golden", "tools"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "All")
    return folder


@pytest.fixture
def matrix(checkout: Path, workspace: Workspace) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Call the program of the checkout."""
    git(checkout, "checkout", "-q", "--force", "main")
    environment = {**os.environ, **workspace.env}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        program = checkout / "tools" / "mlir_matrix" / "__main__.py"
        done = subprocess.run(
            [sys.executable, "-P", "-s", str(program), *words], env=environment, cwd=checkout, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done

    return call


def test_changes_of_the_program(checkout: Path, matrix: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    def affected() -> dict[str, set[str]]:
        """The reasons by framework."""
        done = matrix("plan", *SELECTED, "--changed-since", "HEAD", "--format", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert len(found["selection"]["change"]["since"]) == 40
        reasons: dict[str, set[str]] = {}
        for test in found["tests"]:
            if test["selected"]:
                reasons.setdefault(test["id"].split("/")[0], set()).add(test["reason"].partition(" since ")[0])
        return reasons

    package = checkout / "tools" / "mlir_matrix"
    edit(package / "golden" / "commands.py", '"""', '"""Changed. ')
    # A run with --html uses it when all results are there.
    edit(package / "site" / "site.py", '"""', '"""Changed. ')
    edit(package / "actions" / "tools" / "irtest.py", '"""', '"""Changed. ')
    assert affected() == {"mlir": {"the code of tool irtest changed"}}
    git(checkout, "reset", "-q", "--hard", "main")
    # Every failure in the cache now passes.
    edit(package / "execute" / "action_cache.py", 'self.outcome["outcome"] == "ok"', "True")
    file = "tools/mlir_matrix/execute/action_cache.py"
    assert affected() == {name: {f"{file} changed: it can change any verdict"} for name in ("jax", "mlir")}
    # What plans has changed: the other plan is made by the program of that revision, and tells where it differs.
    git(checkout, "reset", "-q", "--hard", "main")
    edit(package / "plan" / "chains.py", "stage=Stage.IMPORT,", "stage=Stage.LOWER,")
    found = affected()
    assert any(reason.startswith("the definition of ") for reason in found.pop("jax"))
    assert found == {"mlir": {"tools/mlir_matrix/plan/chains.py changed: it can change any verdict"}}


def test_a_change_that_mends_the_program(
    checkout: Path, matrix: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    planner = checkout / "tools" / "mlir_matrix" / "plan" / "planner.py"
    good = planner.read_text()
    planner.write_text(f"{good}\nraise LookupError('a bug')\n")
    git(checkout, "checkout", "-q", "--detach")
    git(checkout, "commit", "-q", "-a", "-m", "Break")
    planner.write_text(good)
    done = matrix("plan", *SELECTED, "--changed-since", "HEAD")
    assert done.returncode == 0, done.stderr
    assert "failed, so only the current tests are known: LookupError: a bug" in done.stderr
    found = re.search(r"(\d+) of (\d+) tests can be affected", done.stdout)
    assert found
    assert found[1] == found[2] != "0"


def test_a_run_that_nothing_affects(
    matrix: Callable[..., subprocess.CompletedProcess[str]], checkout: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results.json"
    (checkout / "matrix" / "workloads" / "mlp" / "README.md").write_text("A document.")
    done = matrix("run", *SELECTED, "--changed-since", "HEAD", "--results", str(results))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 of ")
    found = json.loads(results.read_text())
    assert (found["tests"], found["selection"]["change"]["since"][:4].isalnum()) == ([], True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--changed-since", "nothing"), "'nothing' is no commit, tag or branch of "),
        (("--changed-since", "HEAD", "--changed", "x"), "--changed-since and --changed exclude each other"),
    ],
)
def test_refusals(
    matrix: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...], message: str
) -> None:
    done = matrix("plan", *SELECTED, *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_fault_in_a_step_and_one_in_a_workload_are_two_causes(
    checkout: Path, matrix: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """The one because its IR test fails, too, the other by the file that changed. Neither is committed."""
    step, source = "recipes/steps/linalg-to-loops/step.yaml", "matrix/workloads/softmax/linalg.mlir"
    tests = ("mlir/linalg-loops/x86_64/{conv2d,mlp,softmax,transpose}", "*/linalg-to-loops/ir/*")
    results = tmp_path / "results.json"
    assert matrix("run", *tests, "-q").returncode == 0
    edit(checkout / step, "tm-tensor-to-loops,convert-linalg-to-loops,", "tm-tensor-to-loops,")
    edit(checkout / source, "func.func @main", "func.fun @main")
    done = matrix("run", *tests, "-q", "--results", str(results))
    assert done.returncode == 1, done.stderr
    first, second = json.loads(results.read_text())["causes"]
    assert first["title"].startswith("linalg-to-loops: its IR test matmul fails: ")
    assert (first["file"], first["changed"]["files"]) == (step, [step])
    assert second["title"].startswith(f"{source} changed: ")
    assert (second["file"], second["tests"]) == (source, ["mlir/linalg-loops/x86_64/softmax"])
    lines = done.stdout.splitlines()
    assert lines[lines.index(first["title"]) - 1] == ""
    assert f", changed: {step}" in done.stdout
    assert "not as expected, 2 causes; " in lines[-1]
