"""Run a module of IREE on lavapipe, by the loader and the libraries that come with Mesa."""

import os

from mlir_matrix.actions.api import Action, load, write_json

#: A name without a folder: the loader looks among the libraries of its own prefix.
DRIVER = {"file_format_version": "1.0.0", "ICD": {"library_path": "libvulkan_lvp.so", "api_version": "1.3.0"}}


def run(action: Action) -> None:
    write_json("driver.json", DRIVER)
    variables = {"VK_ICD_FILENAMES": os.path.abspath("driver.json"), "LP_NUM_THREADS": "1"}
    load(action.inputs["iree_module.py"], "run_module")(action, "vulkan", variables, libraries=True)
