"""Commands of a build that leave children, or close their output."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.source import process
from mlir_matrix.environments.source.process import Runner


def run(folder: Path, script: str, limit_s: float) -> None:
    """Run a script of ``sh`` and wait until it and its children, which all hold a pipe, have ended."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    alive = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        Runner(folder / "log", threading.Event(), print).run(
            ["sh", "-c", f"exec 3>{pipe}; {script}"], "it fails", limit_s
        )
    finally:
        assert select.select([alive], [], [], 10)[0], "a child is left"
        os.close(alive)


def test_a_child_in_the_background(tmp_path: Path) -> None:
    """It has the command's output open, and ends with the command."""
    run(tmp_path, "sleep 60 & echo done", 10)
    assert (tmp_path / "log").read_text() == "done\n"


def test_all_of_the_output_is_in_the_log(tmp_path: Path) -> None:
    run(tmp_path, "head -c 300000 /dev/zero; (echo last)", 60)
    assert (tmp_path / "log").read_bytes() == bytes(300000) + b"last\n"


def test_a_command_that_closes_its_output(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"it fails: not done after 0\.3 s, the limit"):
        run(tmp_path, "exec >&- 2>&-; sleep 20", 0.3)


def test_a_child_that_ignores_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_END_S", 0.3)
    with pytest.raises(InfrastructureError, match="not done after"):
        run(tmp_path, "(trap '' TERM; yes) & sleep 60", 1)
