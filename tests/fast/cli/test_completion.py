"""What a shell completes, and that it need not wait for the modules of a verb."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlir_matrix.cli.main import VERBS
from mlir_matrix.cli.verbs import LazyVerb

PROGRAM = Path(__file__).resolve().parents[3] / "tools/mlir_matrix/__main__.py"


def complete(*words: str, shell: str = "zsh") -> tuple[list[str], set[str]]:
    """The completions of the last word, and the modules that were imported for them."""
    done = subprocess.run(
        [sys.executable, "-P", "-s", "-X", "importtime", PROGRAM], capture_output=True, text=True, check=True,
        env={
            **os.environ, "_MATRIX_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": " ".join(("matrix", *words)), "COMP_CWORD": str(len(words)),
        },
    )  # fmt: skip
    modules = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    return done.stdout.splitlines(), modules


@pytest.mark.parametrize(("words", "verbs"), [(("",), VERBS), (("golden", ""), VERBS["golden"].verbs)])
def test_verbs_with_their_help_at_once(words: tuple[str, ...], verbs: dict[str, LazyVerb]) -> None:
    lines, modules = complete(*words)
    # Each is three lines: its type, its name, its help.
    assert lines == [line for name, verb in verbs.items() for line in ("plain", name, verb.help)]
    ours = {name for name in modules if name.startswith("mlir_matrix.cli.")}
    assert ours <= {"mlir_matrix.cli.main", "mlir_matrix.cli.verbs"}
    assert modules.isdisjoint({"pydantic", "rich", "yaml", "numpy", "docker"})


def test_beginnings_and_options() -> None:
    assert complete("con")[0][1::3] == ["conflicts", "container"]
    assert complete("--vers")[0][1] == "--version"
    assert complete("run", "--catal")[0][1] == "--catalog"


@pytest.mark.parametrize(
    ("words", "some", "all_begin"),
    [
        (("run", "smo"), ["smoke"], "smo"),
        (("run", "mlir/lin"), ["mlir/linalg-loops/"], "mlir/linalg-"),
        (("run", "mlir/linalg-loops/x86_64/ml"), ["mlir/linalg-loops/x86_64/mlp"], "mlir/linalg-loops/x86_64/ml"),
        (("explain", "jax/"), ["jax/linalg-loops/"], "jax/"),
        (("run", "--pin", "ll"), ["llvm="], "ll"),
        (("run", "--pin", "llvm=2"), ["llvm=22.1.8"], "llvm=2"),
        (("toolchain", "list", "torch"), ["torch", "torch-mlir"], "torch"),
        (("toolchain", "fetch", "zi"), ["zig"], "zi"),
        (("schema", "work"), ["workload"], "workload"),
        (("list", "st"), ["steps"], "steps"),
    ],
)
def test_names_of_the_catalogs(words: tuple[str, ...], some: list[str], all_begin: str) -> None:
    lines, modules = complete(*words)
    found = lines[1::3]
    assert set(some) <= set(found)
    assert all(name.startswith(all_begin) for name in found)
    if words[0] in ("run", "schema"):
        assert modules.isdisjoint({"pydantic", "rich", "yaml", "numpy", "docker"})


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("run", "--pin", "llvm", "=", "22"), "22.1.8"),
        (("run", "--pin", "llvm", "=", "22.1", "--pin", "ziglang", "="), "0.17.0"),
        (("run", "--pin", "=", "zi"), "ziglang="),
        (("run", "smo"), "smoke"),
    ],
)
def test_bash_ends_a_word_at_an_equals_sign(words: tuple[str, ...], completed: str) -> None:
    assert f"plain,{completed}" in complete(*words, shell="bash")[0]


def test_names_of_the_project_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "matrix/suites").mkdir(parents=True)
    (tmp_path / "matrix/suites/mine.yaml").write_text("")
    (tmp_path / "matrix.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert complete("run", "mi")[0][1::3] == ["mine"]
