"""Make a code object of AMD's assembly."""

from __future__ import annotations

from mlir_matrix.actions.api import Action, run_program


def run(action: Action) -> None:
    machine = ["-triple=amdgcn-amd-amdhsa", f"-mcpu={action.params['parameters']['cpu']}", "-filetype=obj"]
    run_program("llvm-mc", [*machine, action.inputs["ir"], "-o", "kernel.o"])
    run_program("zig", ["ld.lld", "-shared", "--no-undefined", "kernel.o", "-o", action.outputs["out"]])
