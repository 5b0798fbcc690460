"""Folders of failures: one a run, and not too many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlir_matrix.results import run_folder
from mlir_matrix.results.run_folder import RunFolder


def test_two_runs_in_a_second_have_two_folders_with_their_pins(tmp_path: Path) -> None:
    pins = {"llvm": "19.1.7", "torch": "2.13.0+cpu", "own": "/home/me/llvm build"}
    first, second, plain = (RunFolder(tmp_path / "failures", each) for each in (pins, pins, {}))
    assert not (tmp_path / "failures").exists(), "a run without failures leaves no folder"
    assert len({first.path, second.path, plain.path}) == 3
    for folder in (first, second):
        assert "@llvm=19.1.7,torch=2.13.0+cpu,own=-home-me-llvm-build" in folder.path.name
    assert "@" not in plain.path.name


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    pins = {f"component{number}": "1.2.3" for number in range(100)}
    assert len({RunFolder(tmp_path, pins).path for _ in range(3)}) == 3


def made(folder: Path, age: int, size: int = 10) -> Path:
    """The folder that a run of ``age`` seconds ago left."""
    (folder / "jax").mkdir(parents=True)
    (folder / "jax" / "file").write_bytes(b"x" * size)
    status = folder.stat()
    os.utime(folder, (status.st_atime, status.st_mtime - age))
    return folder


DAY = 24 * 3600


@pytest.mark.parametrize(("days", "most_bytes"), [((1, 2, 8, 9, 10), 1 << 20), ((1, 2, 3, 4, 5), 2_500)])
def test_the_oldest_runs_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: tuple[int, ...], most_bytes: int
) -> None:
    """By age, and by size. The run's own folder stays, and that of a run that is not over."""
    monkeypatch.setattr(run_folder, "MOST_BYTES", most_bytes)
    old = [made(tmp_path / f"run-{number}", age * DAY, 1000) for number, age in enumerate(days, 1)]
    hold = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), fcntl.LOCK_SH); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold, old[4]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        own = RunFolder(tmp_path, {})
        assert len(list(tmp_path.iterdir())) == 5, "a run that keeps nothing removes nothing"
        assert own.path.is_dir()
        assert {path.name for path in tmp_path.iterdir()} == {own.path.name, "run-1", "run-2", "run-5"}
        other.communicate()


def test_many_runs_of_a_day_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their paths are still on a screen. Those of this process stay whatever they take: it prints them at its end."""
    old = {made(tmp_path / f"run-{number}", 3600).name for number in range(40)}
    first = RunFolder(tmp_path, {}).path
    assert {path.name for path in tmp_path.iterdir()} == {*old, first.name}
    (first / "file").write_bytes(b"x" * 100)
    os.utime(first, (0, 0))
    monkeypatch.setattr(run_folder, "MOST_BYTES", 1)
    second = RunFolder(tmp_path, {}).path
    assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name}
