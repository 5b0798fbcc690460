"""Run a module of IREE on an AMD GPU, by the driver of this machine."""

import os

from mlir_matrix.actions.api import Action, GpuDevice, load

#: IREE loads its driver by this name.
LIBRARY = "libamdhip64.so"


def run(action: Action) -> None:
    # Where the GPU cannot be used, the module is not to blame.
    os.symlink(GpuDevice("hip").path, LIBRARY)
    load(action.inputs["iree_module.py"], "run_module")(action, "hip", {"LD_LIBRARY_PATH": os.getcwd()})
