"""Compile LLVM-dialect IR to an object file whose entry point is the C interface of ``@main``.

params   ``parameters``: ``opt-level`` (0 to 3); for programs also ``triple``, ``cpu`` and ``features``. The bindings compile only
         for the CPU that they run on
inputs   ``ir``, in the LLVM dialect
outputs  the object file, under any name
"""

from __future__ import annotations

from mlir_matrix.actions.params import StepParams
from mlir_matrix.actions.runtime.contract import Action
from mlir_matrix.actions.tools import backend, kernel

preload = backend.preload


def run(action: Action[StepParams]) -> None:
    """Read ``ir``, write the object."""
    level = kernel.opt_level(action)
    # The name of the output is its kind, which is the step's to choose.
    (target,) = action.outputs.values()
    backend.backend_of(action).compile_object(action, level, target)
