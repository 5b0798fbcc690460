"""The IR after each pass comes in the order of the pipeline, also of the passes before a failure or a crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import Action, ActionFailed, MachineFailed
from mlir_matrix.actions.mlir import backend
from mlir_matrix.actions.params import PassesParams
from mlir_matrix.actions.tools import print_passes

FILES = {
    "module/0_first.mlir": "first",
    "module/func_a/1_0_second.mlir": "second",
    "module/func_b/1_0_second.mlir": "second of b",
    "module/func_a/1_10_fourth.mlir": "fourth",
    "module/func_a/1_9_third.mlir": "third",
    "module/2_fifth.mlir": "fifth",
}


def crash() -> None:
    os.kill(os.getpid(), signal.SIGABRT)


def fail() -> None:
    raise ActionFailed("the pass failed", diagnostics="error: here")


def leave() -> None:
    os._exit(1)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def miss_a_program() -> None:
    raise MachineFailed("mlir-opt cannot start")


@pytest.fixture
def print_until(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """A function that prints passes whose process then ends by a function."""

    def run(end: Callable[[], None]) -> None:
        monkeypatch.setattr(backend, "backend_of", lambda _: Printer(end))
        outputs = {"printed": "printed.mlir", "problem": "why.txt"}
        print_passes.run(Action(params=PassesParams(passes="a,b"), inputs={}, outputs=outputs))

    monkeypatch.chdir(tmp_path)
    return run


class Printer:
    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def transform(self, action: Any, passes: str, *, printed: str, **_: Any) -> None:
        assert passes == "a,b"
        for name, text in reversed(FILES.items()):
            path = Path(printed, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._end()


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (lambda: None, ""),
        (fail, "the pass failed\nerror: here"),
        (crash, "crashed with SIGABRT\n"),
        (leave, "the compiler ended its process with exit code 1\n"),
    ],
)
def test_passes_before_a_failure_or_a_crash_are_printed(
    end: Callable[[], None], problem: str, print_until: Callable[[Callable[[], None]], None]
) -> None:
    print_until(end)
    order = ["first", "second", "second of b", "third", "fourth", "fifth"]
    assert Path("printed.mlir").read_text().split("\n") == order
    assert Path("why.txt").read_text() == problem


@pytest.mark.parametrize(("end", "why"), [(miss_a_program, "mlir-opt cannot start"), (be_killed, "was killed")])
def test_a_failure_of_the_machine_is_no_result(
    end: Callable[[], None], why: str, print_until: Callable[[Callable[[], None]], None]
) -> None:
    with pytest.raises(MachineFailed, match=why):
        print_until(end)
