"""Run a module of IREE on lavapipe, by the loader and the libraries that come with Mesa."""

import os

import numpy

from mlir_matrix.actions.api import Action, Tensor, run_program, write_json

#: A name without a folder: the loader looks among the libraries of its own prefix.
DRIVER = {"file_format_version": "1.0.0", "ICD": {"library_path": "libvulkan_lvp.so", "api_version": "1.3.0"}}


def run(action: Action) -> None:
    write_json("driver.json", DRIVER)
    run_program(
        "iree-run-module",
        [
            "--device=vulkan",
            f"--module={action.inputs['artifact']}",
            "--function=main",
            *(f"--input={_input(action.inputs['arg-' + each['name']], each)}" for each in action.params["arguments"]),
            *(f"--output=@{action.outputs['out-' + each['name']]}" for each in action.params["results"]),
        ],
        libraries=True,
        variables={"VK_ICD_FILENAMES": os.path.abspath("driver.json"), "LP_NUM_THREADS": "1"},
    )


def _input(path: str, declared: Tensor) -> str:
    """Return an input as iree-run-module takes it. An .npy cannot say that its numbers are bf16."""
    if declared["dtype"] != "bf16":
        return f"@{path}"
    raw = f"{declared['name']}.bin"
    numpy.load(path).tofile(raw)
    return "x".join(map(str, (*declared["shape"], "bf16"))) + f"=@{raw}"
