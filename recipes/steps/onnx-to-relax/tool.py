"""Translate an ONNX model to Relax."""

from __future__ import annotations

from pathlib import Path

import onnx
import tvm
from tvm.relax.frontend.onnx import from_onnx

from mlir_matrix.actions.api import Action, under_test


def run(action: Action) -> None:
    """Write the module; the inputs of ``main`` are those of the model, in order."""
    with under_test():
        module = from_onnx(onnx.load(action.inputs["ir"]))
    Path(action.outputs["out"]).write_text(tvm.ir.save_json(module), encoding="utf-8")
