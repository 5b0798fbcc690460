"""Store files by hash, find them in other folders, and find damage."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from mlir_matrix.base.files import acquire
from mlir_matrix.environments.fetch.artifacts import Artifact, Artifacts


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(folder: Path, data: bytes, name: str = "") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (name or digest(data))).write_bytes(data)
    return digest(data)


def test_artifacts_keep_a_complete_file(tmp_path: Path) -> None:
    store = Artifacts(tmp_path / "s")
    assert store.entries() == []
    assert store.leftovers() == []
    assert store.find(digest(b"x")) is None
    (tmp_path / "s").mkdir()
    part = store.part(digest(b"x"))
    part.write_bytes(b"x")
    assert store.leftovers() == [part]
    assert store.keep(part, digest(b"x")) == store.find(digest(b"x"), 1) == store.path(digest(b"x"))
    assert store.find(digest(b"x"), 2) is None
    assert store.entries() == [Artifact(sha256=digest(b"x"), size=1)]
    assert store.leftovers() == []
    assert store.remove(digest(b"x")) == 1
    assert store.remove(digest(b"x")) == 0


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "/x"])
def test_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no SHA-256"):
        Artifacts(tmp_path).path(name)


@pytest.mark.parametrize("place", ["", "artifacts"])
def test_find_in_another_store(tmp_path: Path, place: str) -> None:
    """The folder itself or a home that holds one; what is damaged there is not taken."""
    other = tmp_path / "other"
    good = put(other / place, b"good")
    bad = digest(b"bad")
    (other / place / bad).write_bytes(b"BAD")
    store = Artifacts(tmp_path / "s", [tmp_path / "absent", other])
    assert store.find(good) == store.find(good, 4) == other / place / good
    assert store.find(good, 5) is None
    assert store.find(bad, 3) is None
    assert store.passed_over == {
        other / place / bad: f"{other / place / bad} is ignored: its sha256 is {digest(b'BAD')}, expected {bad}",
    }
    assert not store.folder.exists()


def test_find_in_a_plain_folder(tmp_path: Path) -> None:
    """Find files with any name, by size and then by hash."""
    put(tmp_path / "debs", b"one", "a_1%3a2_amd64.deb")
    put(tmp_path / "debs", b"two", "b.whl")
    (tmp_path / "debs" / "folder").mkdir()
    store = Artifacts(tmp_path / "s", [tmp_path / "debs"])
    assert store.find(digest(b"two"), 3) == tmp_path / "debs" / "b.whl"
    assert store.find(digest(b"one")) == tmp_path / "debs" / "a_1%3a2_amd64.deb"
    assert store.find(digest(b"three"), 5) is None
    assert store.passed_over == {}
    # By its name it would be this one.
    assert store.find(digest(b"three"), 5, "a_2_amd64.deb") is None
    assert list(store.passed_over) == [tmp_path / "debs" / "a_1%3a2_amd64.deb"]


def test_damaged_artifacts_are_found_and_set_aside(tmp_path: Path) -> None:
    """Found, whatever the damage is, and set aside, so that it is fetched again."""
    store = Artifacts(tmp_path)
    good, bad, gone = (put(tmp_path, data) for data in (b"good", b"bad" * 100, b"gone"))
    assert list(store.damaged()) == []
    (tmp_path / bad).write_bytes(b"bad" * 99 + b"bat")
    (tmp_path / gone).write_bytes(b"")
    assert {entry.sha256 for entry in store.damaged()} == {bad, gone}
    store.set_aside(bad)
    store.set_aside(bad)
    assert store.find(bad) is None
    assert [path.name for path in store.leftovers()] == [f"{bad}.damaged"]
    assert {entry.sha256 for entry in store.entries()} == {good, gone}


def test_what_somebody_is_fetching_is_no_leftover(tmp_path: Path) -> None:
    """The lock of a part ends with the process that downloads it."""
    store = Artifacts(tmp_path)
    busy, left, damaged = (store.part(digest(name)) for name in (b"busy", b"left", b"damaged"))
    damaged = damaged.with_suffix(".damaged")
    for path in (busy, left, damaged, tmp_path / "somebody's.part"):
        path.write_bytes(b"x")
    with open(busy, "r+b") as file:
        acquire(file.fileno(), None)
        assert store.leftovers() == sorted([left, damaged])
    assert store.leftovers() == sorted([busy, left, damaged])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read(tmp_path: Path) -> None:
    name = put(tmp_path, b"x")
    (tmp_path / name).chmod(0)
    assert [entry.sha256 for entry in Artifacts(tmp_path).damaged()] == [name]


def test_links_and_folders_are_no_entries(tmp_path: Path) -> None:
    (tmp_path / ("a" * 64)).mkdir()
    (tmp_path / ("b" * 64)).symlink_to("/etc/passwd")
    assert Artifacts(tmp_path).entries() == []
    assert Artifacts(tmp_path).find("a" * 64) is None
