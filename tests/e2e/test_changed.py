"""``--changed-since`` on the command line: changes of the program itself, runs that nothing affects, and refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.house import House

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


def git(folder: Path, *words: str) -> None:
    identity = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **identity}
    subprocess.run(["git", "-C", str(folder), *words], env=environment, check=True)


@pytest.fixture
def matrix(checkout: Path, house: House) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Call the program of the checkout."""
    git(checkout, "reset", "-q", "--hard", "main")
    environment = {**os.environ, **house.env}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        program = checkout / "tools" / "mlir_matrix" / "__main__.py"
        done = subprocess.run(
            [sys.executable, "-P", "-s", str(program), *words], env=environment, cwd=checkout, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done

    return call


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_changes_of_the_program(checkout: Path, matrix: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    def affected() -> set[str]:
        done = matrix("plan", *SELECTED, "--changed-since", "HEAD", "--format", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert len(found["selection"]["change"]["since"]) == 40
        return {test["id"].split("/")[0] for test in found["tests"] if test["selected"]}

    package = checkout / "tools" / "mlir_matrix"
    edit(package / "cli" / "plan.py", '"""', '"""Changed. ')
    assert affected() == set()
    edit(package / "actions" / "tools" / "irtest.py", '"""', '"""Changed. ')
    assert affected() == {"mlir"}
    # What plans has changed: the other plan is made by the program of that revision.
    edit(package / "plan" / "chains.py", "stage=Stage.IMPORT,", "stage=Stage.LOWER,")
    assert affected() == {"jax", "mlir"}
    edit(checkout / "tools" / "mlir_matrix" / "judge" / "results.py", '"""', '"""Changed. ')
    done = matrix("plan", *SELECTED, "--changed-since", "HEAD")
    assert "the program's own code changed since then (judge/results.py): it may change the outcome" in done.stderr


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
