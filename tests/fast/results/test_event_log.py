"""The lines of events: what fits, what is cut, and what happens where they cannot be written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.results import event_log as events
from mlir_matrix.results.event_log import LONGEST, EventLog
from mlir_matrix.results.results import Run, TestDone, TestResult
from mlir_matrix.results.run_folder import RunFolder
from mlir_matrix.results.run_info import RunInfo
from mlir_matrix.schema.export import schema

PASS = TestResult(
    id="jax/p/t/a", framework="jax", pipeline="p", target="t", workload="a", outcome="pass", stage="judge",
    expected=True, reason="", repeat="tools/matrix run jax/p/t/a",
)  # fmt: skip
WRONG = replace(PASS, id="jax/p/t/b", outcome="lower-failed", stage="lower", expected=False, reason="no")


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema("events"))


def begin(path: Path | None, folder: Path, command: str = "c") -> EventLog:
    log = EventLog(path)
    log.planned(RunInfo(command, []).started(), tests=2, unsupported=0, folder=RunFolder(folder / "failures", {}))
    return log


@pytest.fixture
def lines(tmp_path: Path, validator: Draft202012Validator) -> Iterator[Any]:
    """Parse the lines of ``tmp_path/events``; each is short, and has the schema."""

    def read() -> list[Any]:
        found = []
        for line in (tmp_path / "events").read_bytes().splitlines(keepends=True):
            assert line.endswith(b"\n")
            assert len(line) <= LONGEST
            found.append(json.loads(line))
            validator.validate(found[-1])
        return found

    return read


def test_each_test_is_finished_once(tmp_path: Path, lines: Any) -> None:
    log = begin(tmp_path / "events", tmp_path)
    log.listener()(TestDone(WRONG))
    skipped = replace(PASS, outcome="skipped", stage="", reason="the run was interrupted")
    log.ended(Run(results=[skipped, WRONG], interruption=KeyboardInterrupt()))
    planned, first, second, ended = lines()
    assert (planned["event"], planned["tests"], planned["run"]["command"]) == ("planned", 2, "c")
    assert [(each["cell"], each["test"]) for each in (first, second)] == [
        ("jax/p/t", WRONG.to_json()),
        ("jax/p/t", skipped.to_json()),
    ]
    assert (ended["event"], ended["interrupted"], ended["summary"]["total"]) == ("ended", True, 2)
    assert not (tmp_path / "failures").exists()


def test_a_cell_ends_with_its_last_test(tmp_path: Path, lines: Any) -> None:
    other = replace(PASS, id="mlir/s/ir/c", framework="mlir", pipeline="s", target="ir", workload="c")
    absent = replace(PASS, id="jax/q/t/a", pipeline="q", outcome="unsupported", stage="", reason="no")
    begin(tmp_path / "events", tmp_path).ended(Run(results=[PASS, other, WRONG, absent]))
    assert [(each["event"], each.get("state", ""), each["cell"]) for each in lines()[1:-1]] == [
        ("cell", "started", "jax/p/t"),
        ("finished", "", "jax/p/t"),
        ("cell", "started", "IR tests of steps"),
        ("finished", "", "IR tests of steps"),
        ("cell", "finished", "IR tests of steps"),
        ("finished", "", "jax/p/t"),
        ("cell", "finished", "jax/p/t"),
        ("finished", "", "jax/q/t"),
    ]


def test_a_test_that_an_action_finds_unsupported_ends_its_cell(tmp_path: Path, lines: Any) -> None:
    begin(tmp_path / "events", tmp_path).ended(Run(results=[replace(PASS, outcome="unsupported", stage="import")]))
    assert [(each["event"], each.get("state", "")) for each in lines()[1:-1]] == [
        ("cell", "started"),
        ("finished", ""),
        ("cell", "finished"),
    ]


LONG: dict[str, TestResult] = {
    "text": replace(WRONG, diagnostics="error: " + "x" * 50_000, metrics={"m": 1.0}),
    "odd characters": replace(WRONG, diagnostics="\U0001f41e" * 5_000, reason="é\x00" * 1_000, kept="/" + "k" * 300),
    "many numbers": replace(WRONG, metrics={f"m{number}": 1.5 for number in range(1_000)}, pins={"a" * 2_000: "b" * 900}),
    "a census": replace(
        WRONG, verdict={"outcome": "mismatch", "reason": "r" * 3_000, "outputs": [], "metrics": {}}, diagnostics="d" * 4_000,
        expectation={"outcome": "mismatch", "reason": "r" * 5_000, "position": "s.yaml:1:1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("result", LONG.values(), ids=LONG)
def test_what_is_too_long_is_in_a_file(tmp_path: Path, lines: Any, result: TestResult) -> None:
    log = begin(tmp_path / "events", tmp_path)
    log.listener()(TestDone(result))
    _, line = lines()
    whole = json.loads(Path(line["file"]).read_text())
    assert whole["test"] == json.loads(json.dumps(result.to_json()))
    assert (line["test"]["id"], line["test"]["outcome"]) == (result.id, result.outcome)
    for name in ("diagnostics", "reason"):
        text = line["test"].get(name, "")
        assert text == getattr(result, name) or (
            text.endswith("…") and getattr(result, name).startswith(text[:20].rstrip("…"))
        )
    assert len(json.dumps(line)) > LONGEST / 4, "as much as fits stays"


def test_a_long_command_and_a_long_error_are_cut(tmp_path: Path, lines: Any) -> None:
    log = begin(tmp_path / "events", tmp_path, command="matrix run " + "a/b/c/d " * 5_000)
    log.listener()(PackageProgress(package="llvm 19", error="no " * 5_000))
    planned, package = lines()
    assert planned["run"]["command"].startswith("matrix run a/b/c/d")
    assert (package["package"], package["state"]) == ("llvm 19", "error")
    assert json.loads(Path(package["file"]).read_text())["error"] == "no " * 5_000


def test_a_folder_that_cannot_be_made_costs_the_file_alone(tmp_path: Path, lines: Any) -> None:
    (tmp_path / "failures").write_text("")
    begin(tmp_path / "events", tmp_path).listener()(TestDone(LONG["text"]))
    assert "file" not in lines()[1]


def test_packages_make_an_event_a_second(tmp_path: Path, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = begin(tmp_path / "events", tmp_path)
    at = [0.0]
    monkeypatch.setattr("mlir_matrix.results.event_log.time.monotonic", lambda: at[0])
    for number in range(31):
        at[0] = number / 10
        log.listener()(PackageProgress(package="llvm 19", received=number, total=30))
        log.listener()(PackageProgress(package="zig 1", received=number, phase="building"))
    log.listener()(PackageProgress(package="llvm 19", done=True))
    states = [(line["package"], line["state"], line["received"]) for line in lines()[1:]]
    assert states[-1] == ("llvm 19", "installed", 0)
    for package, state in (("llvm 19", "fetching"), ("zig 1", "building")):
        assert [received for *names, received in states if names == [package, state]] == [0, 10, 20, 30]


def test_a_full_disk_keeps_whole_lines_and_is_told_at_the_end(
    tmp_path: Path, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = begin(tmp_path / "events", tmp_path)
    before = (tmp_path / "events").read_bytes()
    real, room = os.write, [100]

    def write(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        part, room[0] = data[: room[0]], 0
        return real(descriptor, part)

    monkeypatch.setattr(events.os, "write", write)
    log.listener()(TestDone(PASS))
    log.listener()(TestDone(WRONG))
    assert (tmp_path / "events").read_bytes() == before
    with pytest.raises(
        InfrastructureError, match=r"--events .*: No space left on device; it has 1 events, and the later"
    ):
        log.ended(Run(results=[PASS, WRONG]))


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    log = begin(Path(f"/dev/fd/{write}"), tmp_path)
    assert json.loads(os.read(read, 4096))["event"] == "planned"
    os.close(read)
    log.listener()(TestDone(PASS))
    log.ended(Run(results=[PASS]))
    os.close(write)


def test_a_file_that_cannot_be_opened_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InfrastructureError, match=r"--events .*loop: Too many levels"):
        EventLog(tmp_path / "loop")


def test_no_log_writes_nothing(tmp_path: Path) -> None:
    log = begin(None, tmp_path)
    log.listener()(TestDone(LONG["text"]))
    log.ended(Run(results=[PASS]))
    assert list(tmp_path.iterdir()) == []
