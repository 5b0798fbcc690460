"""The action cache: what is put in comes out, whole or not at all, whoever was at it in between."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.execute.action_cache import ActionCache, BlockedError, LostBlob, Result, read_bytes, write_bytes

KEY = "ab" + "0" * 62


@pytest.fixture
def store(tmp_path: Path) -> ActionCache:
    made = ActionCache(tmp_path / "cache")
    made.prepare()
    return made


def put(store: ActionCache, tmp_path: Path, data: bytes) -> str:
    (tmp_path / "file").write_bytes(data)
    return store.take_file(str(tmp_path / "file"))


@pytest.mark.parametrize("size", [0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, (4 << 20) + 1])
def test_bytes_come_back(store: ActionCache, tmp_path: Path, size: int) -> None:
    """Small ones are remembered, large ones are not; another store reads both from the disk."""
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    digest = put(store, tmp_path, data)
    assert digest == digest_bytes(data)
    assert not (tmp_path / "file").exists()
    assert store.has_blob(digest)
    assert store.read_blob(digest) == data
    assert ActionCache(tmp_path / "cache").read_blob(digest) == data


@pytest.mark.parametrize("damage", [b"", b"other", b"hellp"])
def test_damaged_bytes_are_never_given(store: ActionCache, tmp_path: Path, damage: bytes) -> None:
    digest = put(store, tmp_path, b"hello")
    Path(store.blob_path(digest)).write_bytes(damage)
    fresh = ActionCache(tmp_path / "cache")
    with pytest.raises(LostBlob, match="damaged and has been removed") as caught:
        fresh.read_blob(digest)
    assert caught.value.digest == digest
    assert not fresh.has_blob(digest)
    with pytest.raises(LostBlob, match="is missing"):
        fresh.read_blob(digest)


LONG = b"0123456789abcdef" * (300 << 10)


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "dangling": lambda path: path.symlink_to("nothing"),
}


@pytest.mark.parametrize("data", [b"hello", LONG], ids=["small", "large"])
def test_what_is_no_file_is_lost_and_makes_room(store: ActionCache, tmp_path: Path, data: bytes) -> None:
    """A blob, for each way to read it, and a result."""
    digest = put(store, tmp_path, data)
    kept = Result(outcome={"outcome": "ok"}, outputs={"a": digest})
    store.keep(KEY, kept)
    blob, result = Path(store.blob_path(digest)), Path(store.results) / KEY[:2] / KEY
    for place in IN_THE_WAY.values():
        for path in (blob, result):
            path.unlink()
            place(path)
        put(store, tmp_path, data)
        assert ActionCache(tmp_path / "cache").find(KEY) is None
        store.keep(KEY, kept)
        fresh = ActionCache(tmp_path / "cache")
        assert fresh.find(KEY) == kept
        for read in (fresh.read_blob, lambda name, cache=fresh: cache.copy_blob(name, str(tmp_path / "copy"))):
            blob.unlink()
            place(blob)
            with pytest.raises(LostBlob, match="has been removed"):
                read(digest)
            assert not os.path.lexists(blob)
            put(store, tmp_path, data)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_a_blob_that_cannot_be_read(
    store: ActionCache, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is lost if this user cannot read it, but not if the machine fails."""
    digest = put(store, tmp_path, b"hello")
    really, path, copy = os.open, store.blob_path(digest), str(tmp_path / "copy")
    fresh = ActionCache(tmp_path / "cache")

    def refuse(name: str, *arguments: int) -> int:
        if name == path:
            raise OSError(number, os.strerror(number), name)
        return really(name, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    for read in (fresh.read_blob, lambda name: fresh.copy_blob(name, copy)):
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            read(digest)
        assert isinstance(caught.value, LostBlob) == (number == errno.EACCES)
        assert os.path.exists(path) == (number == errno.EMFILE)
        (tmp_path / "file").write_bytes(b"hello")
        os.replace(tmp_path / "file", path)


def test_a_large_blob_is_checked_as_it_is_copied_once_a_run(store: ActionCache, tmp_path: Path) -> None:
    digest = put(store, tmp_path, LONG)
    assert store.is_large(digest)
    fresh = ActionCache(tmp_path / "cache")
    for reader in (store, fresh, fresh):
        reader.copy_blob(digest, str(tmp_path / "copy"))
        assert (tmp_path / "copy").read_bytes() == LONG
    path = Path(store.blob_path(digest))
    path.write_bytes(LONG[:-1] + b"x")
    for reader in (store, ActionCache(tmp_path / "cache")):
        path.write_bytes(LONG[:-1] + b"x")
        (tmp_path / "copy").unlink(missing_ok=True)
        with pytest.raises(LostBlob, match="damaged and has been removed"):
            reader.copy_blob(digest, str(tmp_path / "copy"))
        assert not path.exists()
        assert not (tmp_path / "copy").exists()
    with pytest.raises(LostBlob, match="is missing"):
        store.copy_blob(digest, str(tmp_path / "copy"))


def test_a_large_output_is_ours_alone_when_it_is_taken(store: ActionCache, tmp_path: Path) -> None:
    """Rights of others, and bytes that change after they were hashed. Another name: see test_sandbox.py."""
    mine = tmp_path / "mine"
    mine.write_bytes(LONG)
    mine.chmod(0o666)
    store.hash_large(str(mine))
    digest = store.take_file(str(mine))
    assert digest == digest_bytes(LONG)
    found = os.stat(store.blob_path(digest))
    assert (found.st_nlink, found.st_mode & 0o777) == (1, 0o644)
    mine.write_bytes(LONG)
    store.hash_large(str(mine))
    mine.write_bytes(LONG[1:])
    assert store.take_file(str(mine)) == digest_bytes(LONG[1:])


def test_results_come_back(store: ActionCache, tmp_path: Path) -> None:
    digest = put(store, tmp_path, b"x")
    result = Result(
        outcome={"outcome": "ok", "stage": "run"}, outputs={"a": digest}, usage={"wall_s": 1.5}, metrics={"n": [1]}
    )
    store.keep(KEY, result)
    assert ActionCache(tmp_path / "cache").find(KEY) == result
    assert store.find("cd" + "0" * 62) is None


def test_a_result_without_its_outputs_is_none(store: ActionCache, tmp_path: Path) -> None:
    digest = put(store, tmp_path, b"x")
    store.keep(KEY, Result(outcome={"outcome": "ok"}, outputs={"a": digest}))
    os.unlink(store.blob_path(digest))
    assert store.find(KEY) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "3", "[]", "{}", '{"outcome": null}', '{"outcome": {}}', '{"outcome": {"outcome": 3}}', "\xff",
     '{"outcome": {"outcome": "ok"}, "more": 1}', '{"outcome": {"outcome": "ok"}, "outputs": [1]}', "[" * 200_000],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_entries_that_make_no_sense(store: ActionCache, tmp_path: Path, text: str) -> None:
    data = text.encode("latin-1")
    path = Path(store.results) / KEY[:2] / KEY
    for content in (data, data + b"\n" + digest_bytes(data).encode()):
        path.write_bytes(content)
        assert store.find(KEY) is None


def test_a_flipped_bit_anywhere_is_noticed(store: ActionCache, tmp_path: Path) -> None:
    store.keep(KEY, Result(outcome={"outcome": "lower-failed", "reason": "so"}))
    path = Path(store.results) / KEY[:2] / KEY
    right = path.read_bytes()
    for place in range(len(right)):
        path.write_bytes(right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :])
        assert store.find(KEY) is None, place


def test_an_entry_belongs_to_its_key(store: ActionCache, tmp_path: Path) -> None:
    store.keep(KEY, Result(outcome={"outcome": "ok"}))
    other = KEY[:2] + "1" * 62
    folder = Path(store.results) / KEY[:2]
    (folder / other).write_bytes((folder / KEY).read_bytes())
    assert store.find(other) is None


def test_a_later_result_replaces(store: ActionCache) -> None:
    for outcome in ("lower-failed", "ok"):
        store.keep(KEY, Result(outcome={"outcome": outcome}))
    found = store.find(KEY)
    assert found is not None
    assert found.ok


def test_writing_leaves_nothing_half_done(store: ActionCache, tmp_path: Path) -> None:
    folder = Path(store.results) / KEY[:2]
    (folder / KEY / "theirs").mkdir(parents=True)
    with pytest.raises(BlockedError, match=f"{folder / KEY} is in the way .*: Directory not empty; remove it, or "):
        store.keep(KEY, Result(outcome={"outcome": "ok"}))
    assert os.listdir(folder) == [KEY]


def test_two_that_write_the_same(tmp_path: Path) -> None:
    """A dozen processes at one key and one blob: at the end one of them stands, whole."""
    code = (
        "import sys; from pathlib import Path; from mlir_matrix.execute.action_cache import ActionCache, Result\n"
        "base = Path(sys.argv[1]); store = ActionCache(base / 'cache'); store.prepare()\n"
        "for turn in range(50):\n"
        "    mine = base / f'file-{sys.argv[2]}'; mine.write_bytes(b'same' * 10000)\n"
        "    digest = store.take_file(str(mine))\n"
        f"    store.keep({KEY!r}, Result(outcome={{'outcome': 'ok'}}, outputs={{'a': digest}}, metrics={{'by': sys.argv[2]}}))\n"
        f"    assert store.find({KEY!r}).outputs == {{'a': digest}}\n"
        "    assert store.read_blob(digest) == b'same' * 10000\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "tools")}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(number)], env=env) for number in range(4)
    ]
    assert [process.wait(timeout=120) for process in running] == [0] * 4
    left = [path for path in (tmp_path / "cache").glob("[br]*/**/*") if path.is_file()]
    assert len(left) == 2


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_no_folder_to_be_had(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InfrastructureError, match="action cache cannot be written"):
        ActionCache(tmp_path / place).prepare()
    assert ActionCache(tmp_path / place).find(KEY) is None


def test_written_files_are_new(tmp_path: Path) -> None:
    """Neither over a file nor through a link."""
    write_bytes(str(tmp_path / "a"), b"x" * 100_000)
    assert read_bytes(str(tmp_path / "a")) == b"x" * 100_000
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("a", "link"):
        with pytest.raises(FileExistsError):
            write_bytes(str(tmp_path / name), b"y")
    assert not (tmp_path / "elsewhere").exists()


def deep(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder)
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(here)


@pytest.mark.parametrize(
    "fill",
    [
        lambda folder: None,
        deep,
        lambda folder: (folder / "link").symlink_to("/etc"),
        lambda folder: os.mkfifo(folder / "pipe"),
    ],
    ids=["empty", "deep", "link", "pipe"],
)
def test_removing_what_was_left(tmp_path: Path, fill: Callable[[Path], object]) -> None:
    folder = tmp_path / "-left"
    folder.mkdir()
    fill(folder)
    remove_folder(str(folder))
    assert not folder.exists()
    assert Path("/etc/passwd").exists()
    remove_folder(str(folder))


def test_the_format_of_an_entry(store: ActionCache, tmp_path: Path) -> None:
    """Other programs may read it: a line of JSON under the key, and one with what proves it."""
    store.keep(KEY, Result(outcome={"outcome": "lower-failed", "reason": "«so»"}))
    entry, check = (Path(store.results) / "ab" / KEY).read_bytes().split(b"\n")
    assert check.decode() == digest_bytes(KEY.encode() + b"\n" + entry)
    assert json.loads(entry) == {
        "outcome": {"outcome": "lower-failed", "reason": "«so»"},
        "outputs": {},
        "usage": {},
        "metrics": {},
        "memory_mb": 0,
    }
