"""Records of tests as a file: what was written is read, and what is no such file is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import UsageError
from mlir_matrix.fleet.durations import SCHEMA, Recorded, Snapshot, read_snapshot, typical_seconds

TIME = "2026-01-31T12:00:00.000Z"
RECORDS = st.builds(Recorded, st.floats(0, 1e6), st.just(TIME), st.sampled_from(("", TIME, "2026-02-01T00:00:00.000Z")))


@given(st.dictionaries(st.text(max_size=9), RECORDS, max_size=5))
def test_a_snapshot_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, tests: dict[str, Recorded]
) -> None:
    file = tmp_path_factory.mktemp("durations") / "durations.json"
    made = Snapshot(tests, TIME)
    file.write_text(json.dumps(made.to_document()))
    assert read_snapshot(file) == made
    assert read_snapshot(file).digest == made.digest


def test_the_digest_is_of_the_records_alone() -> None:
    one = Snapshot({"a": Recorded(1.0, TIME)}, TIME)
    assert one.digest == Snapshot({"a": Recorded(1.0, TIME)}, "").digest
    assert one.digest != Snapshot({"a": Recorded(2.0, TIME)}, TIME).digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", f"schema: None; expected {SCHEMA}"),
        ('{"schema": "mlir-matrix/plan/v1"}', f"schema: mlir-matrix/plan/v1; expected {SCHEMA}"),
        (json.dumps({"schema": SCHEMA, "tests": []}), "'tests' is not an object"),
        (json.dumps({"schema": SCHEMA, "tests": {"a": {"seconds": "1"}}}), "test 'a': expected 'seconds'"),
        (json.dumps({"schema": SCHEMA, "tests": {"a": {"seconds": float("nan"), "last_run": TIME}}}), "test 'a'"),
        (json.dumps({"schema": SCHEMA, "tests": {"a": {"seconds": 1, "last_run": "yesterday"}}}), "test 'a'"),
    ],
)
def test_what_is_no_snapshot_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "durations.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"durations\.json") as error:
        read_snapshot(file)
    assert message in str(error.value)


@given(st.integers(1, 9), st.floats(1, 600), st.integers(0, 9), st.floats(1, 100), st.booleans())
def test_one_run_of_a_busy_machine_changes_no_estimate(
    quiet: int, seconds: float, at: int, factor: float, fails: bool
) -> None:
    runs = [seconds] * quiet
    runs.insert(at, -seconds * factor if fails else seconds * factor)
    assert typical_seconds(runs) == seconds


@given(st.integers(1, 9), st.integers(0, 8), st.floats(1, 600), st.randoms())
def test_failures_that_end_early_make_no_test_short(
    passes: int, failures: int, seconds: float, chance: random.Random
) -> None:
    """A step was broken: once it is mended, each test takes what it took."""
    runs = [seconds] * passes + [-seconds / 1000] * failures
    chance.shuffle(runs)
    assert typical_seconds(runs) == seconds


def test_a_test_that_only_fails_takes_what_its_failures_take() -> None:
    assert typical_seconds([-120.0, -90.0, -120.0]) == 105.0
    assert typical_seconds([5.0, *[-120.0] * 8]) == 120.0
