"""Optimise an ONNX model by ONNX Runtime."""

from __future__ import annotations

import onnxruntime

from mlir_matrix.actions.api import Action, ActionFailed, under_test

#: More than "extended" would be for the CPU of the machine.
LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}


def run(action: Action) -> None:
    """Write the model of a session as its optimiser leaves it."""
    level = action.params["parameters"]["level"]
    if level not in LEVELS:
        raise ActionFailed(f"unsupported level {level!r}; expected one of {', '.join(LEVELS)}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = action.outputs["out"]
    with under_test():
        onnxruntime.InferenceSession(action.inputs["ir"], options, providers=["CPUExecutionProvider"])
