"""``matrix run --failed``: which tests the next run takes, and with which options."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.plan.request import LOCAL, Limits, Request
from mlir_matrix.results.results import TestResult
from mlir_matrix.run.commands import run_command
from mlir_matrix.run.last_run import FailedTests, failed_in, last_failed, remember
from support.recordings import result

REPEAT = "tools/matrix run --catalog acme --pin llvm=19 --timeout 3 nightly 'jax/p/t/{}'"
REQUEST = Request(
    tests=(), catalogs=(), cache_dir=None, swaps={}, pins=(), executor=LOCAL, limits=Limits(jobs=1), keep_going=True
)


def failing(name: str) -> TestResult:
    return result(name, "mismatch", repeat=REPEAT.format(name))


def test_the_unexpected_tests_of_the_last_run_are_those_of_the_next(tmp_path: Path) -> None:
    remember(tmp_path, [failing("x"), result("fine"), failing("y")])
    request = last_failed(tmp_path).into(REQUEST, run_command)
    assert request.tests == ("nightly", "jax/p/t/x", "jax/p/t/y")
    assert (request.catalogs, request.pins) == ((Path("acme"),), ("llvm=19",))


def test_catalogs_and_pins_of_the_command_come_first() -> None:
    given = replace(REQUEST, catalogs=(Path("mine"),), pins=("llvm=22",))
    request = FailedTests(("jax/p/t/x",), REPEAT.format("x")).into(given, run_command)
    assert (request.catalogs, request.pins) == ((Path("mine"),), ("llvm=22",))


def test_a_run_as_expected_leaves_nothing(tmp_path: Path) -> None:
    remember(tmp_path, [failing("x")])
    remember(tmp_path, [result("x")])
    assert last_failed(tmp_path).ids == ()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"tests": 3, "repeat": ""}', '{"tests": []}'])
def test_a_state_without_a_run_says_what_to_do(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "last-run.json").write_text(text)
    with pytest.raises(
        UsageError, match=r"^--failed: no run is known here; call matrix run first, or name its results"
    ):
        last_failed(tmp_path)


def test_a_state_that_cannot_be_written_does_not_end_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember(tmp_path / "file", [failing("x")])
    assert os.listdir(tmp_path) == ["file"]


def test_entries_in_quarantine_and_expected_ones_are_left_out() -> None:
    entries = [
        {"id": "a", "expected": False, "repeat": "matrix run a"},
        {"id": "b", "expected": True},
        {"id": "c", "expected": False, "quarantine": {}},
    ]
    assert failed_in(entries) == FailedTests(("a",), "matrix run a")
