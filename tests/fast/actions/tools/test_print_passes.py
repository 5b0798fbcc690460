"""The IR after each pass comes in the order of the pipeline, also of the passes before a failure or a crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import Action, ActionFailed
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


@pytest.mark.parametrize(
    ("end", "problem"),
    [(lambda: None, ""), (fail, "the pass failed\nerror: here"), (crash, "crashed with SIGABRT\n")],
)
def test_passes_before_a_failure_or_a_crash_are_printed(
    end: Callable[[], None], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Printer:
        def transform(self, action: Any, passes: str, *, printed: str, **_: Any) -> None:
            assert passes == "a,b"
            for name, text in reversed(FILES.items()):
                path = Path(printed, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            end()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backend, "backend_of", lambda _: Printer())
    params = PassesParams(passes="a,b")
    outputs = {"printed": "printed.mlir", "problem": "why.txt"}
    print_passes.run(Action(params=params, inputs={}, outputs=outputs))
    order = ["first", "second", "second of b", "third", "fourth", "fifth"]
    assert Path("printed.mlir").read_text().split("\n") == order
    assert Path("why.txt").read_text() == problem
