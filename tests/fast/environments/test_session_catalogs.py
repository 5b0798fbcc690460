"""Record the catalogs that a home is used with, while their folders exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlir_matrix.base.paths import Home
from mlir_matrix.environments.session import others, remember


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(cache=tmp_path / "cache", state=tmp_path / "state", actions=tmp_path / "actions")


def test_others_are_remembered_until_they_are_gone(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    assert list(others(home, [ours])) == []
    monkeypatch.chdir(tmp_path)
    for roots in ([ours], [ours, theirs], [ours, Path("theirs")]):
        remember(home, roots)
    assert list(others(home, [ours])) == [(ours, theirs)]
    assert list(others(home, [ours, theirs])) == [(ours,)]
    theirs.rmdir()
    assert list(others(home, [ours])) == []
    theirs.mkdir()
    assert list(others(home, [ours])) == []


def test_what_cannot_be_noted_is_no_trouble_and_what_is_no_note_is_none(home: Home, tmp_path: Path) -> None:
    home.cache.write_text("a file")
    remember(home, [tmp_path])
    home.cache.unlink()
    (home.cache / "catalogs").mkdir(parents=True)
    (home.cache / "catalogs" / "x.json").write_text("[1]")
    os.mkfifo(home.cache / "catalogs" / "y.json")
    (home.cache / "catalogs" / "z.json").symlink_to("/dev/zero")
    assert list(others(home, [])) == []
    assert list((home.cache / "catalogs").iterdir()) == []
