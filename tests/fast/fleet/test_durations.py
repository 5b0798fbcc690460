"""The summary of recent executions: runs add to it, plans read it, and nothing that is wrong with it stops either."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.fleet import durations
from mlir_matrix.fleet.durations import RECENT, Recorded, Snapshot, read_summary, summary_file
from mlir_matrix.fleet.durations import update_summary as add_executions
from mlir_matrix.history.record import executions
from mlir_matrix.results.results import TestResult
from support.recordings import TIMES, result


def update_summary(state: Path, results: list[TestResult], ended: str) -> str:
    return add_executions(state, executions(results), ended)


def test_each_execution_counts(tmp_path: Path) -> None:
    update_summary(tmp_path, [result("a", seconds=3.0), result("b", seconds=1.0)], TIMES[0])
    update_summary(tmp_path, [result("a", seconds=1.0), result("b", seconds=9.0, cached=True)], TIMES[1])
    update_summary(tmp_path, [result("a", "crashed", seconds=2.0), result("c", "skipped")], TIMES[2])
    found = read_summary(tmp_path)
    assert found.tests == {
        "jax/p/t/a": Recorded(1.5, TIMES[2], TIMES[2]),
        "jax/p/t/b": Recorded(1.0, TIMES[1]),
    }
    assert found.taken == TIMES[2]


def test_old_executions_stop_to_count(tmp_path: Path) -> None:
    for seconds in (100.0,) * RECENT + (1.0,) * RECENT:
        update_summary(tmp_path, [result("a", seconds=seconds)], TIMES[0])
    assert read_summary(tmp_path).tests["jax/p/t/a"].seconds == 1.0


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=RECENT - 1), st.floats(10, 1000), st.data())
def test_one_busy_run_changes_no_duration(
    tmp_path_factory: pytest.TempPathFactory, quiet: list[float], busy: float, data: st.DataObject
) -> None:
    state = tmp_path_factory.mktemp("state")
    place = data.draw(st.integers(0, len(quiet)))
    for seconds in (*quiet[:place], busy, *quiet[place:]):
        update_summary(state, [result("a", seconds=seconds)], TIMES[0])
    assert 0.5 <= read_summary(state).tests["jax/p/t/a"].seconds <= 2


def test_an_infra_error_is_no_execution(tmp_path: Path) -> None:
    update_summary(tmp_path, [result("a", seconds=3.0)], TIMES[0])
    update_summary(tmp_path, [result("a", "infra-error", seconds=0.0), result("b", "infra-error")], TIMES[1])
    assert read_summary(tmp_path).tests == {"jax/p/t/a": Recorded(3.0, TIMES[0])}


def test_a_cached_result_costs_what_its_actions_took(tmp_path: Path) -> None:
    update_summary(tmp_path, [result("a", seconds=3.0, cached=True)], TIMES[0])
    assert read_summary(tmp_path).tests == {"jax/p/t/a": Recorded(3.0, TIMES[0])}


def test_a_run_that_decided_nothing_writes_nothing(tmp_path: Path) -> None:
    assert update_summary(tmp_path, [result("a", "skipped"), result("b", "unsupported")], TIMES[0]) == ""
    assert not list(tmp_path.iterdir())
    assert read_summary(tmp_path) == Snapshot()


def test_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    update_summary(tmp_path, [result("a")], TIMES[0])
    summary_file(tmp_path).write_bytes(b"no database" * 1000)
    warnings: list[str] = []
    assert read_summary(tmp_path, warnings.append) == Snapshot()
    assert "cannot be read, so none are used" in warnings[0]
    assert "was damaged; a new one has the durations" in update_summary(tmp_path, [result("a")], TIMES[1])
    assert read_summary(tmp_path).tests == {"jax/p/t/a": Recorded(1.0, TIMES[1])}


def test_damaged_rows_are_no_durations(tmp_path: Path) -> None:
    update_summary(tmp_path, [result("a")], TIMES[0])
    with closing(sqlite3.connect(summary_file(tmp_path), isolation_level=None)) as database:
        database.execute("UPDATE tests SET recent = '[\"x\"'")
    warnings: list[str] = []
    assert read_summary(tmp_path, warnings.append) == Snapshot()
    assert len(warnings) == 1


def test_one_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    update_summary(tmp_path, [result("a")], TIMES[0])
    with closing(sqlite3.connect(summary_file(tmp_path), isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 7")
    before = summary_file(tmp_path).read_bytes()
    assert "its version is 7, and this program knows 2" in update_summary(tmp_path, [result("a")], TIMES[1])
    assert summary_file(tmp_path).read_bytes() == before


def test_a_locked_one_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update_summary(tmp_path, [result("a")], TIMES[0])
    monkeypatch.setattr(durations, "_PATIENCE", 0.0)
    with closing(sqlite3.connect(summary_file(tmp_path), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "not recorded" in update_summary(tmp_path, [result("b")], TIMES[1])
        other.execute("ROLLBACK")
    assert list(read_summary(tmp_path).tests) == ["jax/p/t/a"]


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file")
    assert "not recorded" in update_summary(tmp_path, [result("a")], TIMES[0])


def test_a_broken_step_makes_no_test_short(tmp_path: Path) -> None:
    for day, outcome in enumerate(("pass", "crashed", "crashed", "crashed")):
        update_summary(tmp_path, [result("a", outcome, seconds=60.0 if outcome == "pass" else 0.05)], TIMES[day])
    assert read_summary(tmp_path).tests["jax/p/t/a"].seconds == 60.0
