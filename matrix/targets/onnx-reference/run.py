"""Run a model by ONNX's reference evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy
import onnx
from onnx.reference import ReferenceEvaluator

from mlir_matrix.actions.api import Action, under_test


def run(action: Action) -> None:
    """Call the model with the inputs by name, write its outputs by name."""
    arguments = {}
    for each in action.params["arguments"]:
        array = numpy.load(action.inputs[f"arg-{each['name']}"])
        arguments[each["name"]] = array.view(ml_dtypes.bfloat16) if each["dtype"] == "bf16" else array
    results = action.params["results"]
    with under_test():
        values = ReferenceEvaluator(onnx.load(action.inputs["artifact"])).run(
            [each["name"] for each in results], arguments
        )
    for each, value in zip(results, values, strict=True):
        array = numpy.asarray(value)
        numpy.save(
            action.outputs[f"out-{each['name']}"], array.view(numpy.uint16) if each["dtype"] == "bf16" else array
        )
