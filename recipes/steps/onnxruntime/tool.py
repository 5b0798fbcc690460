"""Optimise an ONNX model by ONNX Runtime."""

from __future__ import annotations

import onnxruntime

from mlir_matrix.actions.api import Action, under_test


def run(action: Action) -> None:
    """Write the model of a session as its optimiser leaves it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    level = f"ORT_ENABLE_{action.params['parameters']['level'].upper()}".replace("ENABLE_DISABLE", "DISABLE")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = action.outputs["out"]
    with under_test():
        onnxruntime.InferenceSession(action.inputs["ir"], options, providers=["CPUExecutionProvider"])
