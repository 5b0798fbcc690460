"""Large files: copied and hashed in pieces, whole or not at all, beside a loop that waits on a pipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.execute import large_files
from mlir_matrix.execute.large_files import Background, DifferentBytesError, copy_file, hash_file, identity

#: Longer than some pieces, and no multiple of one.
DATA = bytes(range(251)) * 10_000


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "source").write_bytes(DATA)
    return str(tmp_path / "source")


def no_clones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot share data between files."""
    monkeypatch.setattr(large_files, "_clone", lambda _source, _target: False)


def nothing_by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that copies nothing between such files."""
    no_clones(monkeypatch)

    def refuse(*_arguments: Any) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)


@pytest.mark.parametrize("given", [None, digest_bytes(DATA)], ids=["known", "checked"])
@pytest.mark.parametrize("machine", [lambda _: None, no_clones, nothing_by_kernel], ids=["any", "plain", "pieces"])
def test_a_copy_is_a_file_of_its_own(
    source: str, monkeypatch: pytest.MonkeyPatch, machine: Callable[[Any], None], given: str | None
) -> None:
    machine(monkeypatch)
    copy_file(source, f"{source}-copy", given)
    assert Path(f"{source}-copy").read_bytes() == DATA
    assert os.stat(f"{source}-copy").st_nlink == os.stat(source).st_nlink == 1
    Path(f"{source}-copy").write_bytes(b"spoilt")
    assert hash_file(source) == (digest_bytes(DATA), identity(os.stat(source)))


def stopped() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@pytest.mark.parametrize(
    ("digest", "stop", "error"),
    [(digest_bytes(b""), None, DifferentBytesError), (digest_bytes(DATA), stopped(), InterruptedError), (None, stopped(), OSError)],
    ids=["other bytes", "stopped", "stopped unchecked"],
)  # fmt: skip
def test_nothing_is_left_of_a_copy_that_fails(
    source: str, tmp_path: Path, digest: str | None, stop: threading.Event | None, error: type[OSError]
) -> None:
    with pytest.raises(error):
        copy_file(source, f"{source}-copy", digest, stop)
    assert os.listdir(tmp_path) == ["source"]


def test_a_link_is_not_followed(source: str) -> None:
    os.symlink(source, f"{source}-link")
    with pytest.raises(OSError):
        hash_file(f"{source}-link")


def test_what_ends_in_the_background_wakes_the_loop() -> None:
    read, write = os.pipe()
    background = Background(lambda: os.write(write, b"x"))
    came: list[Future[Any]] = []
    background.start(lambda stop: stop.is_set(), came.append)
    background.start(lambda stop: os.stat("/nothing"), came.append)
    for _ in range(2):
        assert os.read(read, 1) == b"x"
    assert not came
    background.finish()
    assert sorted(type(each.exception()).__name__ for each in came) == ["FileNotFoundError", "NoneType"]
    assert {each.result() for each in came if not each.exception()} == {False}
    waiting: list[bool] = []
    background.start(lambda stop: waiting.append(stop.wait(60)), came.append)
    background.close()
    assert waiting in ([True], [])
    os.close(read)
    os.close(write)
