"""Compile an exported PyTorch program ahead of time by TorchInductor."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch._inductor import aoti_compile_and_package, config

from mlir_matrix.actions.api import Action, command_of, under_test

#: TorchInductor knows GCC by this name. Its output must not depend on a folder of this machine.
COMPILER = """\
#!/bin/sh
exec {program} --sysroot={root} -B{root}/usr/bin "$@" -g0 -ffile-prefix-map={packages}= -ffile-prefix-map={here}=
"""


def run(action: Action) -> None:
    """Write the package of a program for one thread."""
    here = Path.cwd()
    os.environ.update(TMPDIR=str(here), TORCHINDUCTOR_CACHE_DIR=str(here / "cache"))
    (program,) = command_of("g++-12")
    packages = Path(torch.__file__).parents[1]
    compiler = here / "g++"
    compiler.write_text(
        COMPILER.format(program=program, root=Path(program).parents[2], packages=packages, here=here), encoding="utf-8"
    )
    compiler.chmod(0o755)
    torch.set_num_threads(1)
    config.compile_threads = config.cpp.threads = 1
    config.cpp.cxx = (None, str(compiler))
    config.cpp.march = action.params["parameters"]["cpu"]
    # A cache of headers would serve one program.
    config.cpp_cache_precompile_headers = config.aot_inductor.precompile_headers = False
    # Not to try what this CPU has.
    config.cpp.vec_isa_ok, config.cpp.simdlen = True, 256
    with under_test():
        aoti_compile_and_package(torch.export.load(action.inputs["ir"]), package_path=str(here / "compiled.pt2"))
    Path("compiled.pt2").replace(action.outputs["out"])
