"""Errors carry the exit code that the interfaces promise, and the command line ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mlir_matrix.base.errors import CatalogError, InfrastructureError, MatrixError, UsageError
from mlir_matrix.catalog.yaml_reader import SourceError
from mlir_matrix.cli import main as cli

PROGRAM = Path(cli.__file__).parents[1] / "__main__.py"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MatrixError("m"), 2), (UsageError("m"), 2), (CatalogError("m"), 2), (InfrastructureError("m"), 3),
        (SourceError("f.yaml", (1, 2), "m"), 2), (OSError(28, "No space left on device"), 3), (KeyboardInterrupt(), 130),
        (click.Abort(), 130), (click.UsageError("m"), 2), (click.BadParameter("m"), 2),
    ],
)  # fmt: skip
def test_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**options: object) -> None:
        raise error

    monkeypatch.setattr(cli.matrix, "main", fail)
    assert cli._call([]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err
    assert "Traceback" not in said.err


def test_lines_after_the_first_are_indented(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**options: object) -> None:
        raise CatalogError("a.yaml:1:1: one\x1b[2J\nb.yaml:2:2: two")

    monkeypatch.setattr(cli.matrix, "main", fail)
    cli._call([])
    assert capsys.readouterr().err == "matrix: a.yaml:1:1: one\\x1b[2J\n        b.yaml:2:2: two\n"


def test_a_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No verdict and no traceback: it is kept for a report."""
    home = tmp_path_factory.mktemp("home")

    def fail(**options: object) -> None:
        raise ZeroDivisionError("ours\x1b[2J")

    monkeypatch.setattr(cli.matrix, "main", fail)
    monkeypatch.setenv("MATRIX_HOME", str(home))
    assert cli._call([]) == 3
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: ours\\x1b[2J\n" in said
    assert "Traceback" not in said
    assert "Traceback" in (home / "state" / "crash.txt").read_text()


def test_damaged_compiled_python_is_no_interrupt(tmp_path: Path) -> None:
    """A file that a full disk cut short raises EOFError, which click takes for Ctrl-D."""
    command = [sys.executable, "-P", "-s", "-X", f"pycache_prefix={tmp_path}/made", str(PROGRAM), "schema"]
    env = {**os.environ, "MATRIX_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    assert subprocess.run(command, env=env, check=False, capture_output=True).returncode == 0
    (made,) = (tmp_path / "made").rglob("mlir_matrix/schema/commands.*.pyc")
    os.truncate(made, 100)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines()
    assert (done.returncode, said[0]) == (3, "matrix: internal error: EOFError: marshal data too short")


def test_one_hierarchy() -> None:
    assert all(issubclass(kind, MatrixError) for kind in (UsageError, CatalogError, InfrastructureError, SourceError))
