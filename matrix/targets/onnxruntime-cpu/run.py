"""Run a model by ONNX Runtime's session."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy
import onnxruntime

from mlir_matrix.actions.api import Action, timed, under_test

#: ``TensorProto.BFLOAT16``, which NumPy has no type for.
BF16 = 16


def run(action: Action) -> None:
    """Call the model with the inputs by name, write its outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with under_test():
        session = onnxruntime.InferenceSession(action.inputs["artifact"], options, providers=["CPUExecutionProvider"])
    arguments = {}
    for each in action.params["arguments"]:
        array = numpy.load(action.inputs[f"arg-{each['name']}"]).copy(order="C")
        make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        bf16 = each["dtype"] == "bf16"
        arguments[each["name"]] = make(array, BF16) if bf16 else onnxruntime.OrtValue.ortvalue_from_numpy(array)
    names = [each["name"] for each in action.params["results"]]
    with under_test():
        values = timed(action, lambda: session.run_with_ort_values(names, arguments))
    for each, value in zip(action.params["results"], values, strict=True):
        numpy.save(action.outputs[f"out-{each['name']}"], _bits(value) if each["dtype"] == "bf16" else value.numpy())


def _bits(value: onnxruntime.OrtValue) -> numpy.ndarray[Any, Any]:
    """Return the bits of a tensor whose type NumPy does not have."""
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy.frombuffer(data, numpy.uint16).reshape(value.shape())
