"""Run a module of IREE with the inputs of an action, on a device that is no CPU."""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from mlir_matrix.actions.api import Action, Tensor, run_program


def run_module(action: Action, device: str, variables: Mapping[str, str], *, libraries: bool = False) -> None:
    """Call the module's ``main`` on a device; ``libraries`` and ``variables`` are those of ``run_program``."""
    inputs = [f"--input={_input(action.inputs['arg-' + each['name']], each)}" for each in action.params["arguments"]]
    outputs = [f"--output=@{action.outputs['out-' + each['name']]}" for each in action.params["results"]]
    words = [f"--device={device}", f"--module={action.inputs['artifact']}", "--function=main", *inputs, *outputs]
    run_program("iree-run-module", words, libraries=libraries, variables=variables)


def _input(path: str, declared: Tensor) -> str:
    """Return an input as iree-run-module takes it. An .npy does not name bf16."""
    if declared["dtype"] != "bf16":
        return f"@{path}"
    raw = f"{declared['name']}.bin"
    numpy.load(path).tofile(raw)
    return "x".join(map(str, (*declared["shape"], "bf16"))) + f"=@{raw}"
