"""Run a module of IREE on a GPU, by the driver of this machine."""

import os

import numpy

from mlir_matrix.actions.api import Action, GpuDevice, Tensor, run_program

#: IREE loads its driver by this name.
LIBRARY = "libcuda.so"


def run(action: Action) -> None:
    # Where the GPU cannot be used, the module is not to blame.
    os.symlink(GpuDevice("cuda").path, LIBRARY)
    run_program(
        "iree-run-module",
        [
            "--device=cuda",
            f"--module={action.inputs['artifact']}",
            "--function=main",
            *(f"--input={_input(action.inputs['arg-' + each['name']], each)}" for each in action.params["arguments"]),
            *(f"--output=@{action.outputs['out-' + each['name']]}" for each in action.params["results"]),
        ],
        variables={"LD_LIBRARY_PATH": os.getcwd()},
    )


def _input(path: str, declared: Tensor) -> str:
    """Return an input as iree-run-module takes it. An .npy cannot say that its numbers are bf16."""
    if declared["dtype"] != "bf16":
        return f"@{path}"
    raw = f"{declared['name']}.bin"
    numpy.load(path).tofile(raw)
    return "x".join(map(str, (*declared["shape"], "bf16"))) + f"=@{raw}"
