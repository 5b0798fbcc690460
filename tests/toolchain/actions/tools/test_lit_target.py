"""The commands of RUN lines: what joins them, their redirections, and which failure counts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlir_matrix.actions.api import Action
from mlir_matrix.actions.runtime.source import load
from support.house import REPOSITORY

PLACE = str(REPOSITORY / "matrix/targets/lit/run.py")
script_of = load(str(REPOSITORY / "recipes/steps/run-lines/tool.py"), "script_of")
run_line, called, inside, negate, ended = (
    load(PLACE, name) for name in ("run_line", "called", "inside", "negate", "Ended")
)


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Run a line of what needs no program of LLVM. Return the command that failed it, or None."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()

    def run(text: str) -> Any:
        (found,) = script_of(f"// RUN: {text}", set(), {})["lines"]
        return run_line(found["commands"], {})

    return run


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    st.lists(st.sampled_from(["true", "! true"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["&&", "||", ";"]), min_size=6, max_size=6),
)
def test_commands_are_joined_as_by_a_shell(line: Callable[[str], Any], commands: list[str], joins: list[str]) -> None:
    text = commands[0] + "".join(f" {join} {command}" for join, command in zip(joins, commands[1:], strict=False))
    assert (line(text) is None) is (subprocess.run(["/bin/sh", "-c", text], check=False).returncode == 0)


def test_files_and_pipes(line: Callable[[str], Any]) -> None:
    assert line("mkdir -p a/b && echo one > a/b/c && echo -n two >> a/b/c ; cat a/b/c | cat > d") is None
    assert Path("d").read_text() == "one\ntwo"
    assert line("cat < d > e && rm -rf a d") is None
    assert Path("e").read_text() == "one\ntwo"
    assert not Path("a").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cat < nothing", "nothing: No such file or directory"),
        ("cat nothing", "nothing: No such file or directory"),
        ("cat .", ".: Is a directory"),
        ("echo > tmp", "tmp: Is a directory"),
        ("echo > no/such", "no/such: No such file or directory"),
        (f"echo > {'a' * 300}", f"{'a' * 100}: File name too long"),
        ("echo > f && mkdir f", "f: File exists"),
        ("rm f", "f: No such file or directory"),
        ("rm -r .", ".: Invalid argument"),
        ("rm .said", ".said: No such file or directory"),
    ],
)
def test_what_a_command_cannot_do_is_its_failure(line: Callable[[str], Any], text: str, why: str) -> None:
    assert line(text).why == why


def test_the_folder_for_temporary_files_may_go(line: Callable[[str], Any]) -> None:
    assert line("rm -rf tmp; rm -f nothing && echo a | cat > d") is None
    assert Path("d").read_text() == "a\n"


def test_the_first_failure_of_a_pipe_counts(line: Callable[[str], Any]) -> None:
    assert line("cat nothing | cat") is not None
    assert line("true | ! true | cat").words == ["!", "true"]
    assert line("not not true") is None


def test_what_stands_before_a_program() -> None:
    call = called(["env", "A=1", "-u", "C", "B=x=y", "not", "--crash", "mlir-opt", "-x"])
    assert (call.program, call.arguments, call.negated, call.crash) == ("mlir-opt", ["-x"], True, True)
    assert call.variables == {"A": "1", "B": "x=y"}
    with pytest.raises(Exception, match="a program is missing"):
        called(["not"])


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "../x", "a/../../x", "~/x"])
def test_other_folders_are_refused(path: str) -> None:
    with pytest.raises(Exception, match="is not below the test's own folder"):
        inside(path)


@pytest.mark.parametrize(
    ("code", "crash", "after"),
    [(0, False, 1), (1, False, 0), (-11, False, -11), (-11, True, 0), (1, True, 1), (0, True, 1)],
)
def test_not(code: int, crash: bool, after: int) -> None:
    found = ended("mlir-opt", [], code)
    negate(found, crash=crash)
    assert found.code == after


def test_a_script_that_is_refused_has_its_verdict(tmp_path: Path) -> None:
    artifact, verdict = tmp_path / "script.json", tmp_path / "verdict.json"
    for text, outcome in (
        ("x", "import-failed"), ("// REQUIRES: gpu\n// RUN: x", "unsupported"), ("// RUN: echo x", "import-failed"),
    ):  # fmt: skip
        artifact.write_text(json.dumps(script_of(text, set(), {})))
        load(PLACE, "run")(Action(params={}, inputs={"artifact": str(artifact)}, outputs={"verdict": str(verdict)}))
        assert json.loads(verdict.read_text())["outcome"] == outcome
