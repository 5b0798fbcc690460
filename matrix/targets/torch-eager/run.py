"""Run an exported program by PyTorch."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from mlir_matrix.actions.api import Action, timed, under_test


def run(action: Action) -> None:
    """Call the program with the inputs in order, write its results."""
    torch.set_num_threads(1)
    arguments = []
    for each in action.params["arguments"]:
        tensor = torch.from_numpy(numpy.load(action.inputs[f"arg-{each['name']}"]))
        arguments.append(tensor.view(torch.bfloat16) if each["dtype"] == "bf16" else tensor)
    with under_test(), torch.no_grad():
        program: Any = torch.export.load(action.inputs["artifact"]).module()
        returned = timed(action, lambda: program(*arguments))
    values = [returned] if isinstance(returned, torch.Tensor) else returned
    for each, value in zip(action.params["results"], values, strict=True):
        array = (value.view(torch.uint16) if each["dtype"] == "bf16" else value).contiguous().numpy()
        numpy.save(action.outputs[f"out-{each['name']}"], array)
