"""Compile LLVM-dialect IR to an object file whose entry point is the C interface of ``@main``.

params   ``parameters``: ``opt-level`` (0 to 3); for programs also ``triple``, ``cpu``, ``features``, ``abi`` and
         ``fp-contract``. The bindings compile only
         for the CPU that they run on
inputs   ``ir``, in the LLVM dialect
outputs  the object file, under any name; by programs also, where they are wanted, ``translated`` and ``optimised``, the LLVM IR
         before and after ``opt``, and ``assembly``
"""

from __future__ import annotations

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.mlir import backend, interface
from mlir_matrix.actions.params import StepParams

#: Outputs with the intermediate results of each program, and their files.
LISTINGS = {"translated": "translated.ll", "optimised": "optimised.ll", "assembly": "kernel.s"}

preload = backend.preload


def run(action: Action[StepParams]) -> None:
    """Read ``ir``, write the object."""
    level = interface.opt_level(action)
    # The step chooses the name of the output, which is its kind.
    (target,) = (path for name, path in action.outputs.items() if name not in LISTINGS)
    backend.backend_of(action).compile_object(action, level, target)
