"""Compile LLVM-dialect IR to an object file by a release's programs: ``mlir-translate``, ``opt``, ``llc``.

Parameters: ``parameters`` with ``opt-level`` (0 to 3) and, where code is not for a machine like this one, ``triple``,
``cpu`` and ``features``. Input: ``ir`` in the LLVM dialect. Output: the object file, whose entry point is the C interface of
``@main``. Without ``cpu`` the code is for a level that every machine of the architecture has, so that it is the same on each.
Nothing is contracted: who wants a fused multiply-add writes one.
"""

from __future__ import annotations

import os
import re
from typing import Any

from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.contract import Action, read_text
from mlir_matrix.actions.tools import kernel

#: The second level of x86-64 has what rounds numbers, SSE 4.1: without it, code generators differ in more than speed.
_BASELINE = {"x86_64": "x86-64-v2"}
_STRICT = 24
_DEFINED = re.compile(rf"^define .*@{kernel.ENTRY}\(", re.MULTILINE)


def run(action: Action) -> None:
    """Read ``ir``, write ``object``."""
    level = kernel.opt_level(action)
    target = _target(action.params.get("parameters", {}))
    words = ["--mlir-to-llvmir", action.inputs["ir"]]
    programs.call("mlir-translate", words, output="kernel.ll", failure="the translation to LLVM IR failed")
    if not _DEFINED.search(read_text("kernel.ll", "the LLVM IR")):
        raise kernel.without_entry()
    words = [f"-O{level}", *target, "kernel.ll", "-S"]
    programs.call("opt", words, output="optimised.ll", failure="LLVM's optimiser failed")
    words = [f"-O{level}", *target, *_uncontracted(), "-relocation-model=pic", "-filetype=obj"]
    programs.call("llc", [*words, "optimised.ll"], output=_only(action), failure="code generation failed")


def _only(action: Action) -> str:
    """Where the object goes: its kind, and so the name of the output, is the step's to say."""
    (path,) = action.outputs.values()
    return path


def _uncontracted() -> list[str]:
    """From 24 on only what an operation itself allows is contracted, and there is nothing to switch off."""
    return ["-fp-contract=off"] if programs.before("llc", _STRICT) else []


def _target(parameters: dict[str, Any]) -> list[str]:
    """What ``opt`` and ``llc`` are told of the machine."""
    machine = os.uname().machine
    triple = parameters.get("triple") or f"{machine}-unknown-linux-musl"
    cpu = parameters.get("cpu") or _BASELINE.get(str(triple).partition("-")[0], "generic")
    features = parameters.get("features")
    return [f"-mtriple={triple}", f"-mcpu={cpu}", *([f"-mattr={features}"] if features else [])]
