"""Write archives that depend on the content of files alone."""

from __future__ import annotations

import io
import os
import random
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.containers.tar import MTIME, digest_of, in_pieces, members, pack, size_of

#: What a file system takes: anything but a slash and a zero.
_NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=40
).filter(lambda name: name not in (".", "..", "__pycache__") and len(name.encode()) < 200)


def fill(root: Path, files: dict[str, bytes], seed: int = 0) -> None:
    """Make files in some order, at some time, under some umask."""
    chance = random.Random(seed)
    names = sorted(files)
    chance.shuffle(names)
    before = os.umask(chance.choice((0o022, 0o077, 0o002)))
    try:
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
            os.utime(path, (chance.randrange(2**31), chance.randrange(2**31)))
    finally:
        os.umask(before)


@settings(max_examples=40)
@given(
    files=st.dictionaries(_NAMES, st.binary(max_size=1500), max_size=6), seeds=st.tuples(st.integers(), st.integers())
)
def test_order_times_and_umask_do_not_count(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], seeds: tuple[int, int]
) -> None:
    """With any file names, the archive contains what was packed."""
    first, second = (tmp_path_factory.mktemp("root") for _ in seeds)
    fill(first, files, seeds[0])
    fill(second, files, seeds[1])
    assert digest_of(members(first, "at")) == digest_of(members(second, "at"))
    listed = members(first, "at/there")
    data = b"".join(pack(listed))
    assert len(data) == size_of(listed)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {member.name: member for member in archive}
        assert found.keys() == {"at/there", *(f"at/there/{name}" for name in files)}
        for name, content in files.items():
            file = archive.extractfile(found[f"at/there/{name}"])
            assert file is not None
            assert file.read() == content
    assert {(each.uid, each.gid, each.uname, each.gname, each.mtime) for each in found.values()} == {
        (0, 0, "", "", MTIME)
    }


def test_the_bytes_are_those_that_they_were(tmp_path: Path) -> None:
    """Another digest here means other IDs for all images: then raise ``layers.FORMAT``."""
    fill(tmp_path, {"a/file": b"content\n", "a/ünïcode": b"", "long/" + "n" * 120: b"x" * 1025})
    (tmp_path / "a/program").write_bytes(b"\x7fELF")
    (tmp_path / "a/program").chmod(0o4711)
    (tmp_path / "a/link").symlink_to("../long")
    listed = members(tmp_path, "matrix/packages/it")
    assert [(member.path.removeprefix("matrix/packages/it"), oct(member.mode)) for member in listed[:6]] == [
        ("", "0o755"), ("/a", "0o755"), ("/a/file", "0o644"), ("/a/link", "0o777"), ("/a/program", "0o755"),
        ("/a/ünïcode", "0o644"),
    ]  # fmt: skip
    assert digest_of(listed) == "422f533145374a879b65f740401e94b59425a7f9b6fb9457f8359f7152efce4e"


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    data = b"".join(pack(members(tmp_path, "at")))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert [os.fsencode(name) for name in archive.getnames()] == [b"at", b"at/caf\xe9"]


def test_hard_links_are_files_and_bytecode_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"content", "b": b"content", "m/__pycache__/m.pyc": b"x", "m/m.py": b""})
    plain = digest_of(members(tmp_path, "at"))
    (tmp_path / "b").unlink()
    os.link(tmp_path / "a", tmp_path / "b")
    assert digest_of(members(tmp_path, "at")) == plain
    assert [member.path for member in members(tmp_path, "at")] == ["at", "at/a", "at/b", "at/m", "at/m/m.py"]


@pytest.mark.parametrize("target", ["../x", "/etc/passwd", "b/../../x", "loop"])
def test_links_that_lead_out_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "loop").symlink_to(target)
    with pytest.raises(InfrastructureError, match="loop is a link that leads out of the folder"):
        members(tmp_path, "at")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InfrastructureError, match="pipe is neither a file nor a folder"):
        members(tmp_path, "at")


@pytest.mark.parametrize("content", [b"", b"longer than it was"])
def test_a_file_that_changes_meanwhile(tmp_path: Path, content: bytes) -> None:
    """The header has stated its size already."""
    (tmp_path / "a").write_bytes(b"content")
    listed = members(tmp_path, "at")
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InfrastructureError, match="a changed while it was read"):
        digest_of(listed)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    listed = members(tmp_path, "at")
    (tmp_path / "a").unlink()
    with pytest.raises(InfrastructureError, match="cannot be read: No such file"):
        digest_of(listed)
    with pytest.raises(InfrastructureError, match="cannot be read: No such file"):
        members(tmp_path / "none", "at")


def test_files_may_be_edited_or_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"one", "b": b"two", "c": b"three"})
    listed = members(tmp_path, "at", {"a": lambda content: content * 2, "b": None, "d": None})
    assert [(member.path, member.content, member.size) for member in listed[1:]] == [
        ("at/a", b"oneone", 6),
        ("at/c", b"", 5),
    ]


@given(parts=st.lists(st.binary(max_size=9)), size=st.integers(1, 20))
def test_fewer_pieces_are_the_same_bytes(parts: list[bytes], size: int) -> None:
    pieces = list(in_pieces(parts, size))
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) >= size for piece in pieces[:-1])
