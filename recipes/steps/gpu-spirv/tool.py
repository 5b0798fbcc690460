"""Write kernels as SPIR-V for Vulkan by MLIR's own dialect and serialisation."""

from __future__ import annotations

import re
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, gpu_program, read_text, run_program

PASSES = (
    "spirv-attach-target{{ver={version} caps=Shader,Int64,Float64,Int16 exts=SPV_KHR_storage_buffer_storage_class}},"
    "map-memref-spirv-storage-class{{client-api=vulkan}},"
    "gpu.module(test-spirv-entry-point-abi{{workgroup-size=1,1,1}},scf-parallel-for-to-nested-fors,lower-affine,"
    "convert-math-to-spirv),"
    "convert-gpu-to-spirv{{use-64bit-index=false}},spirv.module(spirv-lower-abi-attrs,spirv-update-vce)"
)
MODULE = re.compile(r"^  (spirv\.module .*?)^  \}$", re.MULTILINE | re.DOTALL)


def run(action: Action) -> None:
    passes = PASSES.format(**action.params["parameters"])
    ir = gpu_program.take(action, gpu_program.MODULE)
    run_program("mlir-opt", [ir, f"--pass-pipeline=builtin.module({passes})", "-o", "lowered.mlir"])
    modules = MODULE.findall(read_text("lowered.mlir", "the lowered module"))
    if not modules:
        raise ActionFailed("the module has no kernel: no operator of it became a parallel loop")
    texts = []
    for text in modules:
        Path("kernel.mlir").write_text(f"{text}}}\n", encoding="utf-8")
        run_program("mlir-translate", ["--no-implicit-module", "--serialize-spirv", "kernel.mlir", "-o", "kernel.spv"])
        run_program("spirv-dis", ["--raw-id", "kernel.spv", "-o", "kernel.txt"])
        texts.append(Path("kernel.txt").read_text(encoding="utf-8"))
        if "OpStore" not in texts[-1]:
            raise ActionFailed(f"kernel {len(texts) - 1} stores nothing")
    Path("kernels.s").write_text("".join(texts), encoding="utf-8")
    gpu_program.give(action, "kernels.s", without=gpu_program.MODULE)
