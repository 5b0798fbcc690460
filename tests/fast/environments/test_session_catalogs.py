"""Record the catalogs that a home is used with, while their folders exist."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.session import others, remember


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(cache=tmp_path / "cache", state=tmp_path / "state", actions=tmp_path / "actions")


def untold(text: str) -> None:
    raise AssertionError(text)


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Take the rights to read a file or a folder, also from root."""
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(0o700)


def test_others_are_remembered_until_they_are_gone(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    assert list(others(home, [ours])) == []
    monkeypatch.chdir(tmp_path)
    for roots in ([ours], [ours, theirs], [ours, Path("theirs")]):
        remember(home, roots, untold)
    assert list(others(home, [ours])) == [(ours, theirs)]
    assert list(others(home, [ours, theirs])) == [(ours,)]
    theirs.rmdir()
    assert list(others(home, [ours])) == []
    theirs.mkdir()
    assert list(others(home, [ours])) == []


def test_what_cannot_be_noted_is_no_trouble_and_what_is_no_note_is_none(home: Home, tmp_path: Path) -> None:
    home.cache.write_text("a file")
    remember(home, [tmp_path], untold)
    home.cache.unlink()
    (home.cache / "catalogs").mkdir(parents=True)
    (home.cache / "catalogs" / "x.json").write_text("[1]")
    os.mkfifo(home.cache / "catalogs" / "y.json")
    (home.cache / "catalogs" / "z.json").symlink_to("/dev/zero")
    assert list(others(home, [])) == []
    assert list((home.cache / "catalogs").iterdir()) == []


def test_what_cannot_be_read_is_told_and_never_forgotten(home: Home, tmp_path: Path) -> None:
    """A run goes on. To remove packages is an error: other catalogs may need them."""
    note = remember(home, [tmp_path], untold)
    told: list[str] = []
    with unreadable(note.parent):
        assert remember(home, [tmp_path], told.append) == note
        with pytest.raises(InfrastructureError, match=r"catalogs cannot be read: Permission denied; .* --alone"):
            list(others(home, []))
    assert told == [f"toolchain gc does not know of these catalogs: {note.parent}: Permission denied"]
    with unreadable(note), pytest.raises(InfrastructureError, match=r"cannot be read: Permission denied; .* --alone"):
        list(others(home, []))
    assert list(others(home, [])) == [(tmp_path,)]
