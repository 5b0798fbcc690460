"""Run a library by TVM's virtual machine."""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy
import tvm
from tvm import relax

from mlir_matrix.actions.api import Action, timed, under_test


def run(action: Action) -> None:
    """Call ``main`` with the inputs in order, write its results."""
    os.environ["TVM_NUM_THREADS"] = "1"
    arguments = []
    for each in action.params["arguments"]:
        array = numpy.load(action.inputs[f"arg-{each['name']}"])
        arguments.append(tvm.runtime.tensor(array.view(ml_dtypes.bfloat16) if each["dtype"] == "bf16" else array))
    with under_test():
        library = tvm.runtime.load_module(action.inputs["artifact"])
        program: Any = relax.VirtualMachine(library, tvm.cpu())["main"]
        returned = timed(action, lambda: program(*arguments))
    values = [returned] if isinstance(returned, tvm.runtime.Tensor) else returned
    for each, value in zip(action.params["results"], values, strict=True):
        array = value.numpy()
        numpy.save(
            action.outputs[f"out-{each['name']}"], array.view(numpy.uint16) if each["dtype"] == "bf16" else array
        )
