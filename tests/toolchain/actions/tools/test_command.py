"""Commands of catalogs' tools: their words, and what each exit means."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import Action, ActionCrashed, ActionFailed, MachineFailed
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.prepared import ARGUMENTS, INTERFACE, RESULTS, pack, unpack
from mlir_matrix.actions.tools import command

FOLDER = "tool/bin"
_INPUTS = {"ir": "in/ir.mlir", "arg-x": "in/x.npy", "arg-y": "in/y.npy"}
_OUTPUTS = {"out": "out.txt"}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command whose program is a shell script in a wheel."""
    site = tmp_path / "site"
    (site / FOLDER).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(contract, "sites", [str(site)])
    monkeypatch.setattr(programs, "sites", [str(site)])
    monkeypatch.setattr(programs, "folders", [])

    def run(
        script: str,
        *words: str,
        program: str = "compile",
        inputs: Any = _INPUTS,
        outputs: Any = _OUTPUTS,
        **params: Any,
    ) -> None:
        path = site / FOLDER / "compile"
        path.write_text(f"#!{sys.executable} -I\nimport os, sys\nif '--' in sys.argv: out = sys.argv[-1]\n{script}")
        path.chmod(0o755)
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


def test_a_program_in_a_form_of_others_is_opened(call: Any, tmp_path: Path) -> None:
    declared = {
        "inputs": [{"name": "b", "dtype": "f32", "shape": [1]}, {"name": "a", "dtype": "f32", "shape": [1]}],
        "outputs": [{"name": "sum", "dtype": "f32", "shape": [1]}, {"name": "product", "dtype": "f32", "shape": [1]}],
    }
    (tmp_path / "interface.json").write_text(json.dumps(declared))
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    pack("arguments.zip", {"a": "a", "b": "b"})
    copy = (
        "assert all(word.endswith('.npy') for word in sys.argv[1:])\n"
        "for given, made in zip(sys.argv[1:3], sys.argv[3:]): open(made, 'w').write(open(given).read())"
    )
    inputs = {"artifact": "artifact", INTERFACE: "interface.json", ARGUMENTS: "arguments.zip"}
    call(copy, "${inputs}", "${outputs}", inputs=inputs, outputs={RESULTS: "results.zip"}, arguments=[], results=[])
    made = unpack("results.zip", tmp_path / "results")
    assert {name: Path(path).read_text() for name, path in made.items()} == {"sum": "b", "product": "a"}
    with pytest.raises(ActionFailed, match="compile exits with 0 and does not write out-sum, out-product"):
        call("", "${inputs}", inputs=inputs, outputs={RESULTS: "results.zip"}, arguments=[], results=[])


def test_exits(call: Any) -> None:
    with pytest.raises(ActionFailed, match="compile fails with exit code 3: no such op") as failed:
        call("print('in.mlir:1:1: error: no such op', file=sys.stderr); sys.exit(3)")
    assert failed.value.diagnostics == "in.mlir:1:1: error: no such op\n"
    with pytest.raises(ActionFailed, match="compile exits with 0 and does not write out"):
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
    names = ["GLIBC_TUNABLES", "HOME", "LC_ALL", "PATH", "PYTHONHASHSEED", "PYTHONPATH", "TMPDIR"]
    assert (tmp_path / "out.txt").read_text().split() == names
    assert os.environ["SECRET"]
