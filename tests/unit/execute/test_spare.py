"""Files that are used again: only ordinary ones, with exactly the new bytes, in place complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.execute.spare import SpareFiles


@pytest.fixture
def spare(tmp_path: Path) -> SpareFiles:
    return SpareFiles(str(tmp_path / "spare"))


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_a_discarded_file_is_the_next_one(spare: SpareFiles, tmp_path: Path) -> None:
    spare.write(str(tmp_path / "a"), b"long content")
    before = inode(tmp_path / "a")
    spare.discard(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    spare.write(str(tmp_path / "b"), b"short")
    assert (inode(tmp_path / "b"), (tmp_path / "b").read_bytes()) == (before, b"short")


def test_it_takes_the_place_of_another(spare: SpareFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    spare.write(str(tmp_path / "a"), b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        os.mkfifo,
        lambda path: path.write_bytes(b"x" * (1 << 20)),
        lambda path: (path.write_bytes(b"x"), path.chmod(0o755)),
        lambda path: (path.write_bytes(b"kept"), os.link(path, path.with_name("other"))),
        lambda path: (path.write_bytes(b"x"), os.setxattr(path, "user.note", b"x")),
    ],
    ids=["link", "pipe", "large", "mode", "names", "attribute"],
)
def test_odd_ones_are_removed(spare: SpareFiles, tmp_path: Path, make: object) -> None:
    spare.write(str(tmp_path / "first"), b"x")
    assert callable(make)
    make(tmp_path / "odd")
    spare.discard(str(tmp_path / "odd"))
    assert not os.path.lexists(tmp_path / "odd")
    assert os.listdir(tmp_path / "spare") == []
    if (tmp_path / "other").exists():
        spare.write(str(tmp_path / "next"), b"next")
        assert (tmp_path / "other").read_bytes() == b"kept"


def test_a_place_that_is_not_there(spare: SpareFiles, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spare.write(str(tmp_path / "none" / "a"), b"x")
    assert os.listdir(tmp_path / "spare") == [], "nothing half-done is left"


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_contents_do_not_mix(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("files")
    spare = SpareFiles(str(folder / "spare"))
    for content in contents:
        spare.write(str(folder / "file"), content)
        assert (folder / "file").read_bytes() == content
        spare.discard(str(folder / "file"))
    assert len(os.listdir(folder / "spare")) == 1
