"""Call a kernel that MLIR's own runner compiles in memory.

The same driver as in ``run``, loaded as a shared library, reads arguments, calls the kernel and writes results.

params   ``arguments``, ``results``, ``repeat``: as in ``run``; ``parameters`` with ``opt-level`` (0 to 3)
inputs   ``ir``: the module that ``compile_jit`` makes; ``driver``: the library that ``link_kit`` makes; ``arg-NAME``: as in ``run``
outputs  as in ``run``, and ``metrics.json``, too. Code is for the CPU of this machine
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.mlir import interface
from mlir_matrix.actions.params import RunParams
from mlir_matrix.actions.runtime.driver import DRIVER_IO, check_written, driver_arguments, judge
from mlir_matrix.actions.runtime.prepared import opened
from mlir_matrix.actions.tools import compile_jit


def run(action: Action[RunParams]) -> None:
    """Run the kernel and raise as ``run`` does. ``compile_jit`` has checked before that the module compiles."""
    with opened(action) as call:
        _call(call)


def _call(action: Action[RunParams]) -> None:
    level = interface.opt_level(action)
    with tempfile.TemporaryDirectory(prefix="jit-", dir=".") as name:
        folder = Path(name)
        words = folder / "arguments"
        words.write_bytes(b"".join(word.encode() + b"\0" for word in ("kernel", *driver_arguments(action))))
        code, printed, complaint = compile_jit.call(
            compile_jit.START, Path(action.inputs["ir"]), action.inputs["driver"], level, folder,
            {"MATRIX_DRIVER_ARGUMENTS": str(words)},
        )  # fmt: skip
        # The driver removes this file after it reads it. If the file is left and readable, the kernel was not called.
        reached = code == DRIVER_IO or not words.exists()
    if not reached:
        compile_jit.refuse(code, printed + complaint)
    judge(code, printed, complaint)
    check_written(action)
