"""Translate an exported PyTorch program to Relax."""

from __future__ import annotations

from pathlib import Path

import torch
import tvm
from tvm.relax.frontend.torch import from_exported_program

from mlir_matrix.actions.api import Action, under_test


def run(action: Action) -> None:
    """Write the module; the inputs of ``main`` are those of the program, in order."""
    torch.set_num_threads(1)
    with under_test():
        module = from_exported_program(torch.export.load(action.inputs["ir"]))
    Path(action.outputs["out"]).write_text(tvm.ir.save_json(module), encoding="utf-8")
