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


def complete(*words: str) -> tuple[list[str], set[str]]:
    """The completions of the last word, and the modules that were imported for them."""
    done = subprocess.run(
        [sys.executable, "-P", "-s", "-X", "importtime", PROGRAM], capture_output=True, text=True, check=True,
        env={
            **os.environ, "_MATRIX_COMPLETE": "zsh_complete",
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
