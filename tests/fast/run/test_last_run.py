"""``matrix run --failed``: which tests the next run takes, and with which options."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.results.results import Run, TestResult
from mlir_matrix.run.commands import run_command
from mlir_matrix.run.last_run import FailedTests, failed_in, last_failed, remember
from support.recordings import result

REPEAT = "tools/matrix run --catalog acme --pin llvm=19 --pin torch=2.12 --timeout 3 nightly 'jax/p/t/{}'"


def failing(name: str) -> TestResult:
    return result(name, "mismatch", repeat=REPEAT.format(name))


def run(*results: TestResult, interrupted: bool = False) -> Run:
    return Run(results=list(results), interruption=KeyboardInterrupt() if interrupted else None)


def test_the_unexpected_tests_of_the_last_run_are_those_of_the_next(tmp_path: Path) -> None:
    remember(tmp_path, run(failing("x"), result("fine"), failing("y")), whole=True)
    words = last_failed(tmp_path).words(run_command, [])
    options = ["--catalog", "acme", "--pin", "llvm=19", "--pin", "torch=2.12", "--timeout", "3"]
    assert words == [*options, "nightly", "jax/p/t/x", "jax/p/t/y"]


def test_options_of_the_command_come_last_and_its_pins_first() -> None:
    words = FailedTests(("jax/p/t/x",), REPEAT.format("x")).words(run_command, ["--pin", "llvm=22", "--timeout", "9"])
    assert words == shlex.split(
        "--catalog acme --pin torch=2.12 --timeout 3 --pin llvm=22 --timeout 9 nightly jax/p/t/x"
    )


@pytest.mark.parametrize("repeat", ["", "matrix run", "matrix run --no-such x", "matrix run 'x", "ls"])
def test_a_test_without_a_command_that_repeats_it(repeat: str) -> None:
    with pytest.raises(
        UsageError, match=r"^--failed: jax/p/t/x has no command that repeats it; name the tests instead$"
    ):
        FailedTests(("jax/p/t/x",), repeat).words(run_command, [])


def test_a_run_as_expected_leaves_nothing(tmp_path: Path) -> None:
    remember(tmp_path, run(failing("x")), whole=True)
    remember(tmp_path, run(result("x")), whole=True)
    assert last_failed(tmp_path) == FailedTests(())


@pytest.mark.parametrize(("interrupted", "whole"), [(True, True), (False, False)])
def test_a_run_that_ended_early_is_remembered_as_one(tmp_path: Path, interrupted: bool, whole: bool) -> None:
    remember(tmp_path, run(result("x"), interrupted=interrupted), whole=whole)
    assert last_failed(tmp_path).cut_short


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
    remember(tmp_path / "file", run(failing("x")), whole=True)
    assert os.listdir(tmp_path) == ["file"]


def test_entries_in_quarantine_and_expected_ones_are_left_out() -> None:
    entries = [
        {"id": "a", "expected": False, "repeat": "matrix run a"},
        {"id": "b", "expected": True},
        {"id": "c", "expected": False, "quarantine": {}},
    ]
    assert failed_in(entries) == FailedTests(("a",), "matrix run a")
