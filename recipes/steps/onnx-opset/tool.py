"""Convert an ONNX model to a version of the operators."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.version_converter

from mlir_matrix.actions.api import Action, under_test


def run(action: Action) -> None:
    """Write the model with operators of that version."""
    model = onnx.load(action.inputs["ir"])
    with under_test():
        model = onnx.version_converter.convert_version(model, action.params["parameters"]["version"])
    Path(action.outputs["out"]).write_bytes(model.SerializeToString(deterministic=True))
