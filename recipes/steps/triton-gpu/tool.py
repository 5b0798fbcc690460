"""Compile a Triton kernel to assembly, without a GPU."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mlir_matrix.actions.api import Action, ActionFailed, load, under_test

#: By backend: the form of its assembly, and the threads of a warp.
FORMS = {"cuda": ("ptx", 32), "hip": ("amdgcn", 64)}
CONTRACTION = ("off", "fast")


def run(action: Action) -> None:
    parameters = action.params["parameters"]
    backend, arch, contraction = parameters["backend"], parameters["arch"], parameters["fp-contract"]
    if backend not in FORMS:
        raise ActionFailed(f"unknown backend '{backend}'; expected one of {', '.join(FORMS)}")
    if contraction not in CONTRACTION:
        raise ActionFailed(f"fp-contract is '{contraction}'; expected one of {', '.join(CONTRACTION)}")
    form, warp = FORMS[backend]
    # Lines of the source would be named by the folder of this action.
    os.environ.update(TRITON_CACHE_DIR=os.path.abspath("cache"), TRITON_DISABLE_LINE_INFO="1")
    kernel: Any = load(action.inputs["ir"])
    launch = kernel.fn.__globals__["launch"]
    options = {"enable_fp_fusion": contraction == "fast"}
    with under_test():
        source = ASTSource(kernel, launch["signature"], launch["constants"])
        target = GPUTarget(backend, int(arch) if arch.isdigit() else arch, warp)
        made = triton.compile(source, target=target, options=options)
    if made.metadata.global_scratch_size:
        raise ActionFailed("the kernel needs scratch memory, which its launch does not have")
    grid = [*launch["grid"], 1, 1][:3]
    block = [made.metadata.num_warps * warp, 1, 1]
    how = {"name": made.metadata.name, "grid": grid, "block": block, "shared_bytes": made.metadata.shared}
    Path(action.outputs["out"]).write_text(f"{made.asm[form]}\n// launch: {json.dumps(how)}\n", encoding="utf-8")
