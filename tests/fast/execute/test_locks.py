"""Locks by key: one run at a time, gone with the run, and nothing where a file system has none."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlir_matrix.execute.locks import KeyLocks

KEY, OTHER = "ab" * 32, "f" * 64


def test_one_run_at_a_time(tmp_path: Path) -> None:
    one, two = KeyLocks(tmp_path), KeyLocks(tmp_path)
    assert one.take(KEY)
    assert one.take(KEY), "again: it has it"
    assert not two.take(KEY)
    assert not two.is_free(KEY)
    assert one.is_free(KEY), "of others"
    assert two.take(OTHER)
    one.keep({OTHER})
    assert two.is_free(KEY)
    assert two.take(KEY)
    two.close()
    assert one.take(KEY)
    assert one.take(OTHER)
    assert (tmp_path / "locks").stat().st_size == 0


def test_a_run_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """Also where what it started lives on."""
    code = (
        "import subprocess, sys\nfrom pathlib import Path\nfrom mlir_matrix.execute.locks import KeyLocks\n"
        "locks = KeyLocks(Path(sys.argv[1]))\nlocks.take(sys.argv[2])\n"
        "child = subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), KEY],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "tools")},
    )  # fmt: skip
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    locks = KeyLocks(tmp_path)
    try:
        assert not locks.take(KEY)
        holder.kill()
        holder.wait()
        assert locks.take(KEY)
        os.kill(child, 0)
    finally:
        os.kill(child, 9)
        holder.stdout.close()


def test_without_locks_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no place for the file, and where the file system says that it has none."""
    nowhere = KeyLocks(tmp_path / "nowhere")
    assert nowhere.take(KEY)
    assert nowhere.is_free(KEY)
    nowhere.keep(())
    locks = KeyLocks(tmp_path)

    def unsupported(*_given: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "fcntl", unsupported)
    assert locks.take(KEY)
    assert locks.take(OTHER)
    locks.keep(())
    locks.close()
