"""Call a kernel on its arguments, or on several draws of them.

params   ``arguments``, ``results``: lists of ``{"name", "dtype", "shape"}`` in the order of the kernel's signature; a
         size of a result may be null where only the kernel knows it. ``runner``: a program of the environment
         and its options, put before the executable (an emulator). ``repeat``: how often to call it, 1 if absent.
         ``draws``: the numbers of the draws, where there are several
inputs   ``kernel``: the executable that ``link`` makes; ``arg-NAME``: an .npy file for each argument
outputs  ``out-NAME``: an .npy file for each result

With ``draws`` the names are ``arg-DRAW-NAME`` and ``out-DRAW-NAME``. A failed call does not fail the others: its results are
empty files, and the output ``failures`` has the reason by draw.

Beside the outputs it writes ``metrics.json``: ``kernel_ns`` (the time of each call), ``allocations``,
``peak_bytes``, ``leaked_blocks`` and ``leaked_bytes`` (of the first call), ``poisons``: under how many poison values
the results are the same, 1 if there was no second run. No digest covers it, because times differ.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlir_matrix.actions.contract import (
    Action,
    ActionCrashed,
    ActionFailed,
    Role,
    write_json,
)
from mlir_matrix.actions.params import RunParams
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.driver import check_written, driver_arguments, execute, judge
from mlir_matrix.actions.runtime.prepared import opened


def run(action: Action[RunParams]) -> None:
    """Raise ActionFailed if the kernel or its results are wrong, ActionCrashed where a signal ended it.

    With several draws, write these reasons to ``failures``. Raise OSError or MachineFailed if the machine fails.
    """
    if "draws" in action.params:
        write_json(action.outputs["failures"], {str(draw): why for draw, why in _failures(action)})
    else:
        with opened(action) as call:
            _call(call)


def _failures(action: Action[RunParams]) -> Iterator[tuple[int, str]]:
    """Call the kernel on each draw; yield the reasons of failed calls."""
    for draw in action.params["draws"]:
        one = _of_draw(action, draw)
        try:
            _call(one)
            continue
        except ActionFailed as error:
            yield draw, f"run-failed: {error.reason}"
        except ActionCrashed as error:
            yield draw, f"crashed: {error}"
        for path in one.outputs.values():
            Path(path).write_bytes(b"")


def _of_draw(action: Action[RunParams], draw: int) -> Action[RunParams]:
    """Return the call of one draw, with the names of a single call."""
    inputs = {Role.ARGUMENT.of(name): file for name, file in Role.ARGUMENT.among(action.inputs, draw).items()}
    outputs = {Role.RESULT.of(name): file for name, file in Role.RESULT.among(action.outputs, draw).items()}
    return Action(params=action.params, inputs={"kernel": action.inputs["kernel"], **inputs}, outputs=outputs)


def _call(action: Action[RunParams]) -> None:
    with tempfile.TemporaryDirectory(prefix="run-", dir=".") as folder:
        kernel = _executable(Path(action.inputs["kernel"]).absolute(), Path(folder).absolute())
        runner = action.params.get("runner", [])
        words = [*programs.command(runner[0]), *runner[1:]] if runner else []
        command = [*words, str(kernel), *driver_arguments(action)]
        code, printed, complaint = execute(command, Path(folder))
    # The kernel is static and needs no loader; only a runner may.
    programs.check_started(words, code, complaint)
    judge(code, printed, complaint)
    check_written(action)


def _executable(kernel: Path, scratch: Path) -> Path:
    """Return the kernel, or an executable copy if the file has lost its permission to execute."""
    if os.access(kernel, os.X_OK):
        return kernel
    copy = scratch / "kernel"
    shutil.copyfile(kernel, copy)
    copy.chmod(0o755)
    return copy
