"""Run a Triton kernel by Triton's interpreter."""

from __future__ import annotations

import os
from typing import Any

import numpy
import torch

from mlir_matrix.actions.api import FRAMEWORK_NAMES, Action, Tensor, load, under_test

#: What results hold before: NaN in every type of floating point, -1 in integers, true. Elements that are left out show.
UNWRITTEN = 0xFF


def run(action: Action) -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    kernel: Any = load(action.inputs["artifact"])
    launch = kernel.fn.__globals__["launch"]
    params = action.params
    results = [_unwritten(each) for each in params["results"]]
    with under_test():
        arguments = [_tensor(numpy.load(action.inputs[f"arg-{each['name']}"]), each) for each in params["arguments"]]
        kernel[launch["grid"]](*arguments, *results, **launch["constants"])
    for each, result in zip(params["results"], results, strict=True):
        stored = result.view(torch.uint16) if each["dtype"] == "bf16" else result
        numpy.save(action.outputs[f"out-{each['name']}"], stored.numpy())


def _tensor(array: Any, declared: Tensor) -> Any:
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if declared["dtype"] == "bf16" else tensor


def _unwritten(declared: Tensor) -> Any:
    dtype = getattr(torch, FRAMEWORK_NAMES[declared["dtype"]])
    if dtype == torch.bool:
        return torch.ones(declared["shape"], dtype=dtype)
    size = torch.Size(declared["shape"]).numel() * dtype.itemsize
    return torch.full((size,), UNWRITTEN, dtype=torch.uint8).view(dtype).reshape(declared["shape"])
