"""Commands of catalogs' tools: their words, and what each exit means."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.runtime import contract, programs
from mlir_matrix.actions.runtime.contract import Action, ActionCrashed, ActionFailed, MachineFailed
from mlir_matrix.actions.tools import command

FOLDER = "tool/bin"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command whose program is a shell script in a wheel."""
    site = tmp_path / "site"
    (site / FOLDER).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(contract, "sites", [str(site)])
    monkeypatch.setattr(programs, "sites", [str(site)])
    monkeypatch.setattr(programs, "folders", [])

    def run(script: str, *words: str, program: str = "compile", **params: Any) -> None:
        path = site / FOLDER / "compile"
        path.write_text(f"#!{sys.executable} -I\nimport os, sys\nif '--' in sys.argv: out = sys.argv[-1]\n{script}")
        path.chmod(0o755)
        inputs = {"ir": "in/ir.mlir", "arg-x": "in/x.npy", "arg-y": "in/y.npy"}
        outputs = {"out": "out.txt"}
        full = {"command": [program, *words], "programs": [FOLDER], **params}
        command.run(Action(params=full, inputs=inputs, outputs=outputs))

    return run


def test_words_are_filled_and_repeated(call: Any, tmp_path: Path) -> None:
    call(
        "open('out.txt', 'w').write('|'.join(sys.argv[1:]))",
        "${ir}", "-O${level}", "--from=${kind}", "--in=@${inputs}", "-o", "${out}", "$", "${outputs}",
        parameters={"level": 2}, kind="linalg", arguments=[{"name": "y"}, {"name": "x"}],
    )  # fmt: skip
    made = (tmp_path / "out.txt").read_text()
    assert made == "in/ir.mlir|-O2|--from=linalg|--in=@in/y.npy|--in=@in/x.npy|-o|out.txt|$"


def test_exits(call: Any) -> None:
    with pytest.raises(ActionFailed, match="compile fails with exit code 3: no such op") as failed:
        call("print('in.mlir:1:1: error: no such op', file=sys.stderr); sys.exit(3)")
    assert failed.value.diagnostics == "in.mlir:1:1: error: no such op\n"
    with pytest.raises(ActionFailed, match="compile exits with 0 and leaves no out"):
        call("print('done')")
    with pytest.raises(ActionCrashed) as crashed:
        call("os.kill(os.getpid(), 11)")
    assert crashed.value.signal == "SIGSEGV"


def test_a_program_that_no_component_provides_is_the_machines(call: Any) -> None:
    with pytest.raises(MachineFailed, match="the environment has no program compiler"):
        call("", program="compiler")


def test_its_world_is_made(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    call("open('out.txt', 'w').write(' '.join(sorted(os.environ)) + sys.stdin.read())")
    assert (tmp_path / "out.txt").read_text().split() == ["GLIBC_TUNABLES", "HOME", "LC_ALL", "PATH", "TMPDIR"]
    assert os.environ["SECRET"]
