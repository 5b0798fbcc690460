"""Folders of actions: laid out, read with suspicion, and used again only where nothing strange is in them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.runtime.collect import DamagedFolderError, may_be_cached
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.folders import (
    ChangedSource,
    FilePool,
    Folders,
    Prepared,
    collect,
    hash_outputs,
    large_outputs,
    make_scratch,
    new_scratch,
)
from mlir_matrix.execute.keys import Read
from mlir_matrix.execute.large_files import LARGE
from mlir_matrix.plan.graph import Action, Graph

OK = {"outcome": "ok", "stage": "lower"}
#: A default ACL: files that are made below such a folder have the mode 0000.
NOBODY_READS = struct.pack("<I" + "HHI" * 3, 2, 1, 0, 0xFFFFFFFF, 4, 0, 0xFFFFFFFF, 32, 0, 0xFFFFFFFF)
_GET_FLAGS, _SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def set_flags(path: Path, flags: int) -> None:
    """Set an inode flag that needs no privilege."""
    descriptor = os.open(path, os.O_RDONLY)
    (before,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)))
    fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", before | flags))
    os.close(descriptor)


@pytest.fixture
def store(tmp_path: Path) -> ActionCache:
    made = ActionCache(tmp_path / "cache")
    made.prepare()
    return made


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "scratch").mkdir()
    return Folders(tmp_path / "scratch", FilePool(str(tmp_path / "scratch" / "files")))


def action(stage: str = "lower") -> Action:
    graph = Graph()
    name = graph.add(
        "a",
        tool="passes",
        stage=stage,
        environment="mlir",
        params={"passes": "cse"},
        inputs={},
        outputs={"ir": "ir.mlir"},
    )
    return graph.actions[name]


def leave(folder: str, outcome: object = OK, output: str | None = "module") -> None:
    """What a well-behaved action leaves."""
    Path(folder, "outcome.json").write_text(json.dumps(outcome))
    if output is not None:
        Path(folder, "out", "ir.mlir").write_text(output)


def prepared(tmp_path: Path, store: ActionCache) -> Prepared:
    source = tmp_path / "source.py"
    source.write_bytes(b"source")
    (tmp_path / "blob").write_bytes(b"blob" * 40_000)
    blob = store.take_file(str(tmp_path / "blob"))
    reads = (
        Read("source", "in/source.py", digest_bytes(b"source"), source),
        Read("ir", "in/ir.mlir", blob, None),
    )
    return Prepared("key", action(), reads)


def test_what_an_action_finds(tmp_path: Path, store: ActionCache, folders: Folders) -> None:
    given = prepared(tmp_path, store)
    folder = folders.take()
    folders.fill(folder, given, store)
    assert Path(folder, "in/source.py").read_bytes() == b"source"
    assert Path(folder, "in/ir.mlir").read_bytes() == b"blob" * 40_000
    assert json.loads(Path(folder, "action.json").read_text()) == {
        "tool": "passes", "stage": "lower", "params": {"passes": "cse"},
        "inputs": {"source": "in/source.py", "ir": "in/ir.mlir"}, "outputs": {"ir": "out/ir.mlir"},
    }  # fmt: skip
    assert str(tmp_path) not in Path(folder, "action.json").read_text()


def test_copies_not_originals(tmp_path: Path, store: ActionCache, folders: Folders) -> None:
    given = prepared(tmp_path, store)
    folder = folders.take()
    folders.fill(folder, given, store)
    for path in Path(folder, "in").iterdir():
        path.write_bytes(b"spoilt")
    assert (tmp_path / "source.py").read_bytes() == b"source"
    assert ActionCache(tmp_path / "cache").read_blob(given.reads[1].digest) == b"blob" * 40_000


def test_a_source_that_changed_meanwhile(tmp_path: Path, store: ActionCache, folders: Folders) -> None:
    """The key was made of other bytes: a result under it would be a lie."""
    given = prepared(tmp_path, store)
    (tmp_path / "source.py").write_bytes(b"sourcf")
    with pytest.raises(ChangedSource, match=r"source\.py changed during the run"):
        folders.fill(folders.take(), given, store)


def test_a_blob_that_is_lost(tmp_path: Path, store: ActionCache, folders: Folders) -> None:
    given = prepared(tmp_path, store)
    os.unlink(store.blob_path(given.reads[1].digest))
    with pytest.raises(LostBlob):
        folders.fill(folders.take(), given, ActionCache(tmp_path / "cache"))


def test_a_result(store: ActionCache, folders: Folders) -> None:
    folder = folders.take()
    leave(folder)
    Path(folder, "metrics.json").write_text('{"kernel_ns": [1, 2]}')
    result = collect(folder, action(), {"wall_s": 1.0}, store)
    assert (result.outcome, result.usage, result.metrics) == (OK, {"wall_s": 1.0}, {"kernel_ns": [1, 2]})
    assert store.read_blob(result.outputs["ir"]) == b"module"


@pytest.mark.parametrize(
    "mark",
    [
        lambda path: path.chmod(0o4777),
        lambda path: os.setxattr(path, "user.note", b"x"),
        lambda path: os.link(path, path.parents[1] / "more"),
    ],
)
def test_outputs_are_plain_in_the_store(store: ActionCache, folders: Folders, mark: Callable[[Path], object]) -> None:
    """Nothing but its bytes goes from an action to those that read its output."""
    folder = folders.take()
    leave(folder)
    mark(Path(folder, "out", "ir.mlir"))
    blob = store.blob_path(collect(folder, action(), {}, store).outputs["ir"])
    found = os.stat(blob)
    assert (Path(blob).read_bytes(), os.listxattr(blob), found.st_nlink) == (b"module", [], 1)
    assert not found.st_mode & 0o7002


def test_a_large_output_with_another_name(store: ActionCache, folders: Folders) -> None:
    """A copy is hashed and taken, to which the other name does not lead."""
    folder = folders.take()
    content = "x" * (LARGE + 1)
    leave(folder, output=content)
    other = Path(folder, "more")
    os.link(Path(folder, "out", "ir.mlir"), other)
    hash_outputs(large_outputs(folder, action()), folder, store, threading.Event())
    other.write_text("spoilt")
    digest = collect(folder, action(), {}, store).outputs["ir"]
    assert digest == digest_bytes(content.encode())
    assert Path(store.blob_path(digest)).read_text() == content
    assert os.stat(store.blob_path(digest)).st_nlink == 1


def test_what_an_action_writes_as_its_outcome_is_fit_to_print(store: ActionCache, folders: Folders) -> None:
    folder = folders.take()
    forged = {
        "outcome": "crashed", "stage": "lower", "signal": "SIGSEGV\n\x1b[2J", "diagnostics": "a\ud800\x1b[2J\nb",
        "reason": "\x1b]0;owned\x07no\nPASS everything" + "x" * 5_000_000,
    }  # fmt: skip
    Path(folder, "outcome.json").write_text(json.dumps({**forged, "reason": forged["reason"][:3_000_000]}))
    outcome = collect(folder, action(), {}, store).outcome
    assert outcome["reason"].startswith("\ufffd]0;owned\ufffdno PASS everything")
    assert len(outcome["reason"]) < 2_100
    assert outcome["diagnostics"] == "a\ufffd\ufffd[2J\nb"
    assert "signal" not in outcome


def test_a_file_system_without_attributes(
    store: ActionCache, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[str]:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "listxattr", refuse)
    folder = folders.take()
    leave(folder)
    assert collect(folder, action(), {}, store).ok


def test_a_failure_keeps_its_log(store: ActionCache, folders: Folders) -> None:
    folder = folders.take()
    leave(folder, {"outcome": "lower-failed", "stage": "lower", "reason": "r", "diagnostics": "d", "more": [1]}, None)
    Path(folder, "log.txt").write_text("it said")
    Path(folder, "metrics.json").write_text('{"poisons": 2, "commands": [["llc"]]}')
    result = collect(folder, action(), {}, store)
    assert result.outcome == {"outcome": "lower-failed", "stage": "lower", "reason": "r", "diagnostics": "d"}
    assert (result.outputs, result.metrics) == ({}, {"log": "it said", "commands": [["llc"]]})


def replace(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        path = folder / name
        if path.is_dir():
            for inner in path.iterdir():
                inner.unlink()
            path.rmdir()
        else:
            path.unlink()
        make(path)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "outcome.json").unlink(),
        replace("outcome.json", Path.mkdir),
        replace("outcome.json", os.mkfifo),
        replace("outcome.json", lambda path: path.symlink_to("/dev/zero")),
        replace("outcome.json", lambda path: path.write_text("")),
        replace("outcome.json", lambda path: path.write_text("[1]")),
        replace("outcome.json", lambda path: path.write_text("[" * 1_000_000)),
        replace("outcome.json", lambda path: path.write_text(json.dumps({**OK, "x": "x" * (5 << 20)}))),
        replace("outcome.json", lambda path: path.write_bytes(b'{"outcome": "\xff"}')),
        *(
            replace("outcome.json", lambda path, outcome=outcome: path.write_text(json.dumps(outcome)))
            for outcome in (
                {}, {"outcome": "pass", "stage": "lower"}, {"outcome": "skipped", "stage": "lower"},
                {"outcome": "unsupported", "stage": "lower"}, {"outcome": "ok"}, {"outcome": "ok", "stage": "judge"},
                {"outcome": "mismatch", "stage": "lower"}, {"outcome": "import-failed", "stage": "lower"},
                {"outcome": None, "stage": "lower"}, {"outcome": {"a": 1}, "stage": "lower"}, {"outcome": [], "stage": "lower"},
            )
        ),
        lambda folder: (folder / "out" / "ir.mlir").unlink(),
        replace("out/ir.mlir", Path.mkdir),
        replace("out/ir.mlir", os.mkfifo),
        replace("out/ir.mlir", lambda path: path.symlink_to(path.parents[3] / "kept")),
        replace("out", lambda path: path.symlink_to(path.parents[2] / "others")),
        replace("out", lambda path: path.write_text("x")),
    ],
)  # fmt: skip
def test_collect_refuses_links_pipes_and_odd_outputs(
    tmp_path: Path, store: ActionCache, folders: Folders, spoil: Callable[[Path], object]
) -> None:
    """Refused, and never kept, without waiting, following or taking what is not its own."""
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "ir.mlir").write_text("kept")
    folder = folders.take()
    leave(folder)
    spoil(Path(folder))
    started = time.monotonic()
    with pytest.raises(DamagedFolderError) as damaged:
        collect(folder, action(), {}, store)
    assert time.monotonic() - started < 60
    outcome = damaged.value.outcome
    assert (outcome["outcome"], outcome["stage"], may_be_cached(outcome)) == ("lower-failed", "lower", False)
    folders.give_back(folder)
    assert (tmp_path / "kept").read_text() == (tmp_path / "others" / "ir.mlir").read_text() == "kept"


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", "[" * 1_000_000, '{"x": "' + "x" * (5 << 20) + '"}'], ids=lambda text: text[:3]
)
def test_strange_metrics_are_left_out(store: ActionCache, folders: Folders, text: str) -> None:
    folder = folders.take()
    leave(folder)
    Path(folder, "metrics.json").write_text(text)
    result = collect(folder, action(), {}, store)
    assert (result.outcome, result.metrics) == (OK, {})


def test_folders_are_used_again(tmp_path: Path, store: ActionCache, folders: Folders) -> None:
    first, second = folders.take(), folders.take()
    assert first != second
    folders.fill(first, prepared(tmp_path, store), store)
    leave(first)
    Path(first, "in", "x").write_text("x")
    Path(first, "link").symlink_to("/etc/passwd")
    os.mkfifo(Path(first, "pipe"))
    folders.give_back(first)
    assert folders.take() == first
    assert sorted(os.listdir(first)) == ["in", "out"]
    assert os.listdir(f"{first}/in") == os.listdir(f"{first}/out") == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "more").mkdir(),
        lambda folder: (folder / "in" / "more").mkdir(),
        lambda folder: folder.chmod(0o700),
        lambda folder: (folder / "out").chmod(0o500),
        lambda folder: (folder / "out").rmdir(),
        replace("out", lambda path: path.symlink_to("/tmp")),
        replace("in", lambda path: path.mkdir(0o700)),
        lambda folder: os.setxattr(folder, "system.posix_acl_default", NOBODY_READS),
        lambda folder: os.setxattr(folder / "out", "system.posix_acl_default", NOBODY_READS),
        lambda folder: os.setxattr(folder / "in", "user.note", b"x"),
        lambda folder: set_flags(folder / "out", NO_DUMP),
        pytest.param(lambda folder: os.chown(folder / "out", 1, 1), marks=ROOT),
    ],
)
def test_spoilt_folders_are_not(
    tmp_path: Path, store: ActionCache, folders: Folders, spoil: Callable[[Path], object]
) -> None:
    folder = folders.take()
    folders.fill(folder, prepared(tmp_path, store), store)
    spoil(Path(folder))
    folders.give_back(folder)
    assert not os.path.lexists(folder)
    assert folders.take() != folder


@pytest.mark.parametrize(
    ("outcome", "cached"),
    [
        ({"outcome": "ok"}, True), ({"outcome": "lower-failed"}, True), ({"outcome": "crashed", "signal": "SIGSEGV"}, True),
        ({"outcome": "mismatch"}, True), ({"outcome": "crashed", "signal": "SIGKILL"}, False), ({"outcome": "timed-out"}, False),
        ({"outcome": "infra-error"}, False), ({"outcome": "skipped"}, False), ({"outcome": "run-failed", "cache": "no"}, False),
    ],
)  # fmt: skip
def test_what_is_cached(outcome: dict[str, str], cached: bool) -> None:
    assert may_be_cached(outcome) == cached


def home(folder: Path) -> Home:
    return Home(cache=folder, state=folder / "state", actions=folder / "actions")


def test_folders_of_dead_runs_are_swept(tmp_path: Path) -> None:
    scratch = home(tmp_path).scratch
    for name in ("999999999-1", f"{os.getpid()}-1", "odd"):
        (scratch / name / "x").mkdir(parents=True)
    made = make_scratch(new_scratch(home(tmp_path)), home(tmp_path))
    assert sorted(os.listdir(scratch)) == sorted([f"{os.getpid()}-1", made.name])


def test_no_room_for_folders(tmp_path: Path) -> None:
    (tmp_path / "actions").write_text("x")
    with pytest.raises((InfrastructureError, NotADirectoryError)):
        make_scratch(new_scratch(home(tmp_path)), home(tmp_path))


@pytest.fixture
def files(tmp_path: Path) -> FilePool:
    return FilePool(str(tmp_path / "spare"))


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_a_discarded_file_is_the_next_one(files: FilePool, tmp_path: Path) -> None:
    files.write(str(tmp_path / "a"), b"long content")
    before = inode(tmp_path / "a")
    files.discard(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    files.write(str(tmp_path / "b"), b"short")
    assert (inode(tmp_path / "b"), (tmp_path / "b").read_bytes()) == (before, b"short")


def test_it_takes_the_place_of_another(files: FilePool, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    files.write(str(tmp_path / "a"), b"new")
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
def test_odd_ones_are_removed(files: FilePool, tmp_path: Path, make: object) -> None:
    files.write(str(tmp_path / "first"), b"x")
    assert callable(make)
    make(tmp_path / "odd")
    files.discard(str(tmp_path / "odd"))
    assert not os.path.lexists(tmp_path / "odd")
    assert os.listdir(tmp_path / "spare") == []
    if (tmp_path / "other").exists():
        files.write(str(tmp_path / "next"), b"next")
        assert (tmp_path / "other").read_bytes() == b"kept"


def test_a_place_that_is_not_there(files: FilePool, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.write(str(tmp_path / "none" / "a"), b"x")
    assert os.listdir(tmp_path / "spare") == [], "nothing half-done is left"


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_contents_do_not_mix(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("files")
    files = FilePool(str(folder / "spare"))
    for content in contents:
        files.write(str(folder / "file"), content)
        assert (folder / "file").read_bytes() == content
        files.discard(str(folder / "file"))
    assert len(os.listdir(folder / "spare")) == 1
