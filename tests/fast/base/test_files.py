"""Locks, as threads and processes see them, and what is whole or not there."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled, acquire, beside, holds, is_held, locked, write_output, write_text


def test_one_at_a_time(tmp_path: Path) -> None:
    """Who waits may give up."""
    lock, cancelled, order = tmp_path / "locks" / "x", threading.Event(), []

    def wait(event: threading.Event | None) -> None:
        try:
            with locked(lock, event):
                order.append("second")
        except Cancelled:
            order.append("gave up")

    with locked(lock):
        threads = [threading.Thread(target=wait, args=(event,)) for event in (cancelled, None)]
        for thread in threads:
            thread.start()
        cancelled.set()
        threads[0].join(120)
        order.append("first")
    threads[1].join(120)
    assert order == ["gave up", "first", "second"]


def test_lock_holder_is_known(tmp_path: Path) -> None:
    """A thread knows its own; whoever else has it is somebody."""
    lock, seen = tmp_path / "x", []
    assert not holds(lock)
    assert not is_held(lock)
    with locked(lock):
        thread = threading.Thread(target=lambda: seen.append((holds(lock), is_held(lock))))
        thread.start()
        thread.join()
        assert holds(lock)
        assert not holds(tmp_path / "y")
    assert seen == [(False, True)]
    assert not holds(lock)
    assert not is_held(lock)
    with pytest.raises(KeyError), locked(lock):
        raise KeyError
    assert not holds(lock)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    code = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        assert is_held(path)
    finally:
        process.kill()
        process.communicate()
    assert not is_held(path)
    with open(path) as file:
        acquire(file.fileno(), None)


def test_a_file_at_once(tmp_path: Path) -> None:
    """With its folder; in place of a link, not through it; nothing else is left."""
    (tmp_path / "outside").write_text("theirs")
    path = tmp_path / "folder" / "x.txt"
    write_text(path, "one")
    path.unlink()
    path.symlink_to(tmp_path / "outside")
    write_text(path, "ä")
    assert path.read_bytes() == "ä".encode()
    assert (tmp_path / "outside").read_text() == "theirs"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode == (tmp_path / "outside").stat().st_mode
    with pytest.raises(InfrastructureError, match=r"cannot be written: "):
        write_text(tmp_path / "outside" / "x.txt", "")


def test_what_a_killed_process_left_of_a_file_goes(tmp_path: Path) -> None:
    """Not what a process may still write, nor what belongs to another file."""
    left, new = "x.txt.1234.new", "x.txt.1235.new"
    others = {"y.x.txt.1234.new", "1234.new"}
    for name in (left, new, *others):
        (tmp_path / name).touch()
    for name in (left, *others):
        os.utime(tmp_path / name, (0, 0))
    write_text(tmp_path / "x.txt", "")
    assert {path.name for path in tmp_path.iterdir()} == {"x.txt", new, *others}


def test_an_output_that_a_person_named(tmp_path: Path) -> None:
    """A device, a pipe and what a link leads to stay what they are, and a full disk leaves the old file."""
    (tmp_path / "theirs").write_text("before")
    (tmp_path / "link").symlink_to("theirs")
    write_output(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "theirs").read_bytes() == b"x"
    write_output(Path(os.devnull), b"x")
    assert Path(os.devnull).is_char_device()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(
            InfrastructureError, match=r"theirs cannot be written: the disk is full; no incomplete file"
        ):
            write_output(tmp_path / "theirs", b"y" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "theirs").read_bytes() == b"x"
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", "link"}


def test_a_folder_beside(tmp_path: Path) -> None:
    """For everybody to read; what a killed process left there is removed, what is made is removed unless it was moved."""
    left = tmp_path / ".new-x-old"
    left.mkdir()
    with beside(tmp_path / "x") as folder:
        assert not left.exists()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        (folder / "f").touch()
    assert list(tmp_path.iterdir()) == []
    with beside(tmp_path / "x") as folder:
        folder.rename(tmp_path / "x")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


@pytest.mark.parametrize(
    "place", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nothing")], ids=["file", "pipe", "link"]
)
def test_what_is_no_folder_makes_way(tmp_path: Path, place: Callable[[Path], object]) -> None:
    place(tmp_path / "x")
    with beside(tmp_path / "x") as folder:
        os.rename(folder, tmp_path / "x")
    assert (tmp_path / "x").is_dir()
    assert not (tmp_path / "x").is_symlink()


def test_the_file_that_stays_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=rf"Is a directory \({tmp_path}\)$"):
        write_text(tmp_path, "x")
