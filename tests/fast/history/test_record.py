"""What a run records: one row a test, with what tests have alike in tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.fleet.durations import read_summary
from mlir_matrix.history.record import LONGEST, record
from mlir_matrix.history.spool import Spool, read_recording
from mlir_matrix.results.results import Run
from support.recordings import TIMES, recording, result

ABOUT: Any = {
    "version": "1", "command": "matrix run", "host": "h", "started": TIMES[0], "ended": TIMES[1], "catalogs": [],
}  # fmt: skip


def test_a_run_is_recorded(tmp_path: Path) -> None:
    run = Run(
        results=[result("a", metrics={"max_ulp": 2, "error_used": 0.5}), result("b", "crashed", signal="SIGSEGV")]
    )
    identifier, warnings = record(tmp_path, run, ABOUT, ["smoke"], {"jax/p/t/a": "f" * 64})
    (file,) = Spool(tmp_path).files()
    found = read_recording(file)
    assert (found["id"], warnings) == (identifier.partition("@")[0], [])
    assert found["run"] == ABOUT
    assert found["tests"] == [
        ["jax/p/t/a", 0, 1, 0, 1.0, 0.5, 2, 0, "f" * 64],
        ["jax/p/t/b", 1, 0, 0, 1.0, None, None, 0, None],
    ]
    assert found["behaviours"][1][3] == "crashed by SIGSEGV at run"
    assert list(read_summary(tmp_path).tests) == ["jax/p/t/a", "jax/p/t/b"]


def test_tests_of_one_environment_share_it() -> None:
    pins = {"llvm": "22"}
    results = [result(name, pins=dict(pins), environments={"llvm": "e" * 64}) for name in "abc"]
    assert recording(results)["sets"] == [[pins, {"llvm": "e" * 64}]]


def test_the_same_failure_is_the_same_behaviour() -> None:
    found = recording([result("a", "crashed", f"at 0x{number:x}") for number in range(9)])
    assert len(found["behaviours"]) == 1


def test_a_hostile_reason_is_harmless_and_short() -> None:
    (behaviour,) = recording([result("a", "mismatch", "\x1b[2J\0<script>" + "x" * 10_000_000)])["behaviours"]
    assert behaviour[3].startswith("mismatch, \\x1b[2J\\x00<script>")
    assert len(behaviour[3]) <= LONGEST


def test_history_that_is_off_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_HISTORY", "off")
    assert record(tmp_path, Run(results=[result("a")]), ABOUT, []) == ("", [])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file")
    identifier, (warning,) = record(tmp_path, Run(results=[result("a")]), ABOUT, [])
    assert identifier == ""
    assert "history does not have this run" in warning
