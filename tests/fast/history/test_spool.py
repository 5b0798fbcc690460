"""The spool: a run is there whole or not at all, and what is no run is told from one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.history import spool as module
from mlir_matrix.history.spool import SCHEMA, NewerRunError, Spool, SpoolError, new_id, read_recording

TIME = "2026-01-31T12:00:00.000Z"
TOOLS = Path(module.__file__).parents[2]
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from mlir_matrix.history.spool import SCHEMA, Spool, new_id
spool = Spool(sys.argv[2])
print(flush=True)
while True:
    spool.add({"schema": SCHEMA, "id": new_id(), "tests": [["a/b/c/d", number] for number in range(9)]})
"""


def test_runs_come_in_their_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert spool.files() == []
    first = new_id()
    spool.add({"schema": SCHEMA, "id": first})
    assert spool.repeat(f"{first}@history", started=TIME, ended=TIME) == ""
    found = [read_recording(file) for file in spool.files()]
    assert [each.get("same_as") for each in found] == [None, first]
    assert found[0]["id"] == first != found[1]["id"]


def test_only_a_run_of_this_history_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new database, or a state folder that was removed, begins another history."""
    spool, other = Spool(tmp_path / "a"), Spool(tmp_path / "b")
    assert not spool.knows("")
    recorded = spool.add({"schema": SCHEMA, "id": new_id()})
    assert spool.knows(recorded)
    assert recorded.partition("@")[2] == spool.add({"schema": SCHEMA, "id": new_id()}).partition("@")[2]
    assert not any(map(other.knows, (recorded, other.add({"schema": SCHEMA, "id": new_id()})[:-1])))
    spool.forget()
    spool.forget()
    assert not spool.knows(recorded)
    monkeypatch.setenv("MATRIX_HISTORY", "off")
    assert spool.knows(recorded)


def test_nothing_is_recorded_where_history_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_HISTORY", "off")
    assert Spool(tmp_path).repeat(new_id(), started=TIME, ended=TIME) == ""
    assert not (tmp_path / "history").exists()


def test_a_killed_run_leaves_a_whole_file_or_none(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for kept in range(1, 4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(TOOLS), str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            while len(spool.files()) < kept * 20:
                pass
            writer.send_signal(signal.SIGKILL)
        assert all(len(read_recording(file)["tests"]) == 9 for file in spool.files())


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file")
    trouble = Spool(tmp_path).repeat(new_id(), started=TIME, ended=TIME)
    assert trouble.startswith("history does not have this run: ")
    assert "Not a directory" in trouble or "File exists" in trouble


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (b"\0\1\2", "damaged"),
        (b"{", "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"{}", "schema 'None'"),
        (b'{"schema": "mlir-matrix/history-run/v2"}', "this version reads mlir-matrix/history-run/v1"),
        (b'{"schema": "mlir-matrix/history-run/v0"}', "this version reads mlir-matrix/history-run/v1"),
        (zlib.compress(b"[]"), "schema 'None'"),
        (zlib.compress(b"\xff"), "not JSON"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises((SpoolError, NewerRunError), match=reason):
        read_recording(file)


def test_a_file_that_unpacks_to_more_than_a_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 1 << 20)
    file = tmp_path / "file"
    file.write_bytes(zlib.compress(b" " * (1 << 22)))
    with pytest.raises(SpoolError, match="larger than"):
        read_recording(file)


@pytest.mark.parametrize("version", ["0", "", "x", "-2", "1x", "\u00b2"])
def test_an_unknown_version_is_not_called_newer(tmp_path: Path, version: str) -> None:
    file = tmp_path / "file"
    file.write_text(json.dumps({"schema": f"{SCHEMA[:-1]}{version}"}))
    with pytest.raises(SpoolError, match="this version reads"):
        read_recording(file)


def test_what_has_no_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 1 << 20)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with open(tmp_path / "large", "wb") as large:
        large.write(b"{")
        large.truncate(1 << 40)
    for name, why in (("pipe", "not a plain file"), ("zero", "not a plain file"), ("large", "larger than")):
        with pytest.raises(SpoolError, match=why):
            read_recording(tmp_path / name)


@pytest.mark.parametrize("kind", ["pipe", "link", "bytes"])
def test_a_run_goes_on_without_the_name_of_its_history(tmp_path: Path, kind: str) -> None:
    identity = tmp_path / "history" / "id"
    identity.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(identity)
    elif kind == "link":
        identity.symlink_to("/dev/zero")
    else:
        identity.write_bytes(b"\xff\xfe")
    spool = Spool(tmp_path)
    recorded = spool.add({"schema": SCHEMA, "id": new_id()})
    assert len(spool.files()) == 1
    assert spool.knows(recorded) is (kind == "bytes")


@given(cut=st.integers(0, 200), flip=st.integers(0, 200))
def test_a_damaged_file_is_never_read_as_another_run(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    recording = {"schema": SCHEMA, "id": "0" * 32, "tests": [[f"a/b/c/{number}", number] for number in range(40)]}
    Spool(folder).add(recording)
    (file,) = Spool(folder).files()
    data = bytearray(file.read_bytes())
    data[flip % len(data)] ^= 1
    file.write_bytes(data[: len(data) - cut % len(data)])
    try:
        found = read_recording(file)
    except SpoolError:
        return
    # Bits of the header say how hard it was compressed.
    assert json.dumps(found) == json.dumps(recording)


def test_it_imports_little() -> None:
    code = "import sys; before = set(sys.modules); import mlir_matrix.history.spool; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={**os.environ, "PYTHONPATH": str(TOOLS)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert {"sqlite3", "sqlalchemy", "subprocess", "dataclasses"}.isdisjoint(done.stdout.split())
