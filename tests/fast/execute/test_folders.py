"""Folders of actions: laid out, and read with suspicion."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime.collect import DamagedFolderError, may_be_cached, remove_folder
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.folders import (
    ChangedSource,
    Prepared,
    collect,
    empty_folder,
    fill_folder,
    hash_outputs,
    large_outputs,
    make_folder,
)
from mlir_matrix.execute.keys import Read
from mlir_matrix.execute.large_files import LARGE
from mlir_matrix.plan.graph import Graph, PlannedAction

OK = {"outcome": "ok", "stage": "lower"}


@pytest.fixture
def store(tmp_path: Path) -> ActionCache:
    made = ActionCache(tmp_path / "cache")
    made.prepare()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return make_folder(tmp_path)


def action(stage: str = "lower") -> PlannedAction:
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


def test_what_an_action_finds(tmp_path: Path, store: ActionCache, folder: str) -> None:
    given = prepared(tmp_path, store)
    fill_folder(folder, given, store)
    assert Path(folder, "in/source.py").read_bytes() == b"source"
    assert Path(folder, "in/ir.mlir").read_bytes() == b"blob" * 40_000
    assert json.loads(Path(folder, "action.json").read_text()) == {
        "tool": "passes", "stage": "lower", "params": {"passes": "cse"},
        "inputs": {"source": "in/source.py", "ir": "in/ir.mlir"}, "outputs": {"ir": "out/ir.mlir"},
    }  # fmt: skip
    assert str(tmp_path) not in Path(folder, "action.json").read_text()


def test_copies_not_originals(tmp_path: Path, store: ActionCache, folder: str) -> None:
    given = prepared(tmp_path, store)
    fill_folder(folder, given, store)
    for path in Path(folder, "in").iterdir():
        path.write_bytes(b"spoilt")
    assert (tmp_path / "source.py").read_bytes() == b"source"
    assert ActionCache(tmp_path / "cache").read_blob(given.reads[1].digest) == b"blob" * 40_000


def test_a_source_that_changed_meanwhile(tmp_path: Path, store: ActionCache, folder: str) -> None:
    """The key was made of other bytes: a result under it would be a lie."""
    given = prepared(tmp_path, store)
    (tmp_path / "source.py").write_bytes(b"sourcf")
    with pytest.raises(ChangedSource, match=r"source\.py changed during the run"):
        fill_folder(folder, given, store)


def test_a_blob_that_is_lost(tmp_path: Path, store: ActionCache, folder: str) -> None:
    given = prepared(tmp_path, store)
    os.unlink(store.blob_path(given.reads[1].digest))
    with pytest.raises(LostBlob):
        fill_folder(folder, given, ActionCache(tmp_path / "cache"))


def test_a_result(store: ActionCache, folder: str) -> None:
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
def test_outputs_are_plain_in_the_store(store: ActionCache, folder: str, mark: Callable[[Path], object]) -> None:
    """Nothing but its bytes goes from an action to those that read its output."""
    leave(folder)
    mark(Path(folder, "out", "ir.mlir"))
    blob = store.blob_path(collect(folder, action(), {}, store).outputs["ir"])
    found = os.stat(blob)
    assert (Path(blob).read_bytes(), os.listxattr(blob), found.st_nlink) == (b"module", [], 1)
    assert not found.st_mode & 0o7002


def test_a_large_output_with_another_name(store: ActionCache, folder: str) -> None:
    """A copy is hashed and taken, to which the other name does not lead."""
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


def test_what_an_action_writes_as_its_outcome_is_fit_to_print(store: ActionCache, folder: str) -> None:
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


def test_a_file_system_without_attributes(store: ActionCache, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[str]:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "listxattr", refuse)
    leave(folder)
    assert collect(folder, action(), {}, store).ok


def test_a_failure_keeps_its_log(store: ActionCache, folder: str) -> None:
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
    tmp_path: Path, store: ActionCache, folder: str, spoil: Callable[[Path], object]
) -> None:
    """Refused, and never kept, without waiting, following or taking what is not its own."""
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "ir.mlir").write_text("kept")
    leave(folder)
    spoil(Path(folder))
    started = time.monotonic()
    with pytest.raises(DamagedFolderError) as damaged:
        collect(folder, action(), {}, store)
    assert time.monotonic() - started < 60
    outcome = damaged.value.outcome
    assert (outcome["outcome"], outcome["stage"], may_be_cached(outcome)) == ("lower-failed", "lower", False)
    remove_folder(folder)
    assert (tmp_path / "kept").read_text() == (tmp_path / "others" / "ir.mlir").read_text() == "kept"


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", "[" * 1_000_000, '{"x": "' + "x" * (5 << 20) + '"}'], ids=lambda text: text[:3]
)
def test_strange_metrics_are_left_out(store: ActionCache, folder: str, text: str) -> None:
    leave(folder)
    Path(folder, "metrics.json").write_text(text)
    result = collect(folder, action(), {}, store)
    assert (result.outcome, result.metrics) == (OK, {})


def test_emptied_folder_gets_the_next_action(tmp_path: Path, store: ActionCache, folder: str) -> None:
    given = prepared(tmp_path, store)
    for _ in range(2):
        fill_folder(folder, given, store)
        leave(folder)
        Path(folder, "link").symlink_to("/etc")
        os.mkfifo(Path(folder, "out", "pipe"))
        empty_folder(folder)
        assert sorted(path.name for path in Path(folder).rglob("*")) == ["in", "out"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "more").mkdir(),
        lambda folder: (folder / "in" / "more").mkdir(),
        lambda folder: (folder / "out").rmdir(),
        lambda folder: ((folder / "out").rmdir(), (folder / "out").symlink_to(folder.parent / "others")),
    ],
)
def test_spoilt_folder_is_not_emptied(tmp_path: Path, folder: str, spoil: Callable[[Path], object]) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "kept").touch()
    spoil(Path(folder))
    with pytest.raises(OSError, match="directory"):
        empty_folder(folder)
    assert (tmp_path / "others" / "kept").exists()


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
