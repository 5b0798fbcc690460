"""Compile the host code of a program for GPUs, and pack it with the kernels."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, pack, read_text, run_program, uncontracted

#: A module with one kernel, as gpu-kernel-outlining makes it.
MODULE = re.compile(r"^  gpu\.module @(\w+)[^\n]*\{\n.*?^  \}$", re.MULTILINE | re.DOTALL)
#: Its function. Memory of blocks and threads, which follows the arguments, is none.
FUNCTION = re.compile(r"^    gpu\.func @\w+\((.*?)\) (?:workgroup|private|kernel)\b", re.MULTILINE)
ARGUMENT = re.compile(r"%\w+: ")
#: What the host gets in place of the machine code of a kernel: the name of its module.
BINARY = r'  gpu.binary @\1 [#gpu.object<#nvvm.target, bin = "\1\\00">]'
PASSES = (
    "expand-strided-metadata,lower-affine,convert-scf-to-cf,func.func(math-expand-ops{ops=fpowi},llvm-request-c-wrappers),"
    "convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm{use-generic-functions=1},gpu-to-llvm,"
    "convert-ub-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"
)
MACHINE = ["-mtriple=x86_64-unknown-linux-gnu", "-mcpu=x86-64-v2"]


def run(action: Action) -> None:
    text = read_text(action.inputs["ir"], "the module")
    signatures = {match[1]: signature(match[0]) for match in MODULE.finditer(text)}
    if not signatures:
        raise ActionFailed("the module has no kernel: no operator of it became a parallel loop")
    Path("kernels.json").write_text(json.dumps(signatures), encoding="utf-8")
    Path("host.mlir").write_text(MODULE.sub(BINARY, text), encoding="utf-8")
    run_program("mlir-opt", ["host.mlir", f"--pass-pipeline=builtin.module({PASSES})", "-o", "lowered.mlir"])
    run_program("mlir-translate", ["--mlir-to-llvmir", "lowered.mlir", "-o", "host.ll"])
    level = f"-O{action.params['parameters']['opt-level']}"
    run_program("opt", [level, *MACHINE, "-S", "host.ll", "-o", "optimised.ll"])
    generated = ["-relocation-model=pic", *uncontracted(), "-filetype=obj"]
    run_program("llc", [level, *MACHINE, *generated, "optimised.ll", "-o", "host.o"])
    freestanding = ["cc", "-target", "x86_64-linux-gnu", "-mcpu=x86_64_v2", "-O2", "-ffreestanding", "-fPIC", "-c"]
    run_program("zig", [*freestanding, action.inputs["runtime.c"], "-o", "runtime.o"])
    run_program(
        "zig", ["ld.lld", "-shared", "--gc-sections", "--build-id=none", "host.o", "runtime.o", "-o", "host.so"]
    )
    files = {name: name for name in ("host.so", "kernels.json")}
    pack(action.outputs["out"], files | {"kernels.mlir": action.inputs["ir"]})


def signature(module: str) -> list[str]:
    """Return the types of a kernel's arguments, as they are written."""
    found = FUNCTION.search(module)
    return [written.rstrip(", ") for written in ARGUMENT.split(found[1])[1:]] if found else []
