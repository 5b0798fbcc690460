"""Make a code object of AMD's assembly."""

from __future__ import annotations

from mlir_matrix.actions.api import Action, gpu_program, run_program


def run(action: Action) -> None:
    machine = ["-triple=amdgcn-amd-amdhsa", f"-mcpu={action.params['parameters']['cpu']}", "-filetype=obj"]
    run_program("llvm-mc", [*machine, gpu_program.take(action, "kernels.s"), "-o", "kernel.o"])
    run_program("zig", ["ld.lld", "-shared", "--no-undefined", "kernel.o", "-o", "kernels.hsaco"])
    gpu_program.give(action, "kernels.hsaco", without="kernels.s")
