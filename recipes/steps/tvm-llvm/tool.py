"""Compile a Relax module by TVM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tvm

from mlir_matrix.actions.api import Action, read_text, run_program, under_test


def run(action: Action) -> None:
    """Write a shared library without dependencies: Python, which loads it, has loaded libm."""
    cpu = action.params["parameters"]["cpu"]
    target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": cpu})
    module = tvm.ir.load_json(read_text(action.inputs["ir"], "the module"))
    with under_test():
        compiled = tvm.compile(module, target)
    Path("objects").mkdir()
    compiled.export_library("library.so", fcompile=_link, workspace_dir="objects")
    Path("library.so").replace(action.outputs["out"])


def _link(output: str, objects: Sequence[str], options: Sequence[str] | None = None) -> None:
    run_program("zig", ["ld.lld", "-shared", "-o", output, *objects])
