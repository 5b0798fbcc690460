"""Compile the LLVM dialect with OpenMP to a shared object."""

from __future__ import annotations

from mlir_matrix.actions.api import Action, run_program, uncontracted

MACHINE = ["-mtriple=x86_64-unknown-linux-gnu", "-mcpu=x86-64-v2"]


def run(action: Action) -> None:
    """Read ``ir``, write ``out``."""
    level = f"-O{action.params['parameters']['opt-level']}"
    run_program("mlir-translate", ["--mlir-to-llvmir", action.inputs["ir"], "-o", "kernel.ll"])
    run_program("opt", [level, *MACHINE, "-S", "kernel.ll", "-o", "optimised.ll"])
    generated = ["-relocation-model=pic", *uncontracted(), "-filetype=obj"]
    run_program("llc", [level, *MACHINE, *generated, "optimised.ll", "-o", "kernel.o"])
    freestanding = ["cc", "-target", "x86_64-linux-gnu", "-mcpu=x86_64_v2", "-O2", "-ffreestanding", "-fPIC", "-c"]
    run_program("zig", [*freestanding, action.inputs["memref_copy.c"], "-o", "memref_copy.o"])
    objects = ["kernel.o", "memref_copy.o"]
    run_program("zig", ["ld.lld", "-shared", "--gc-sections", "--build-id=none", *objects, "-o", action.outputs["out"]])
