"""Compile the kernels of a module for a GPU, without one."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, gpu_program, read_text, run_program, uncontracted

#: A module with one kernel, as gpu-kernel-outlining makes it.
MODULE = re.compile(r"^  gpu\.module @(\w+)[^\n]*\{\n(.*?)^  \}$", re.MULTILINE | re.DOTALL)
#: What writes memory, in PTX and in AMD's assembly.
STORE = re.compile(r"^\s*(?:(?:@%p\d+ )?(?:st|atom|red)\.|(?:global|flat|buffer)_(?:store|atomic))", re.MULTILINE)
#: Functions of math as bitcode, by architecture: the package and the path in it.
LIBRARIES = {
    "nvptx64": ("nvidia.cuda_nvcc", "nvvm/libdevice/libdevice.10.bc"),
    "amdgcn": ("iree.compiler", "_mlir_libs/iree_platform_libs/rocm/ocml.bc"),
}
#: What AMD's library asks at compile time: numbers are any, as small as they come, and roots and the rest are exact.
CONTROLS = {"finite_only_opt": 0, "daz_opt": 0, "correctly_rounded_sqrt32": 1, "unsafe_math_opt": 0}


def run(action: Action) -> None:
    parameters = action.params["parameters"]
    passes = f"builtin.module(gpu.module({parameters['passes']}))"
    ir = gpu_program.take(action, gpu_program.MODULE)
    run_program("mlir-opt", [ir, f"--pass-pipeline={passes}", "-o", "lowered.mlir"])
    text = read_text("lowered.mlir", "the lowered module")
    aliases = "".join(line for line in text.splitlines(keepends=True) if line.startswith(("#", "!")))
    modules = [_translate(name, aliases, body) for name, body in MODULE.findall(text)]
    if not modules:
        raise ActionFailed("the module has no kernel: no operator of it became a parallel loop")
    run_program("llvm-link", [*modules, "-o", "kernels.bc"])
    _link_math(parameters["triple"], parameters["cpu"])
    machine = [f"-O{parameters['opt-level']}", f"-mtriple={parameters['triple']}"]
    machine += [f"-mcpu={parameters['cpu']}"] if parameters["cpu"] else []
    run_program("opt", [*machine, "kernels.bc", "-o", "optimised.bc"])
    contracted = ["-fp-contract=fast"] if parameters["fp-contract"] == "fast" else uncontracted()
    run_program("llc", [*machine, *contracted, "optimised.bc", "-o", "kernels.s"])
    kernels = [name for name, _ in MODULE.findall(text)]
    if idle := _without_store(read_text("kernels.s", "the assembly"), kernels):
        raise ActionFailed(f"kernel {idle} stores nothing")
    gpu_program.give(action, "kernels.s", without=gpu_program.MODULE)


def _without_store(assembly: str, kernels: list[str]) -> str:
    """Return a kernel whose code is missing or stores nothing; empty if each stores."""
    if "OpFunctionEnd" in assembly:
        # SPIR-V numbers its functions.
        bodies = assembly.split("OpFunctionEnd")[:-1]
        return next((str(number) for number, body in enumerate(bodies) if "OpStore" not in body), "")
    for name in kernels:
        begin = re.search(rf"^(?:\.visible \.entry {name}\(|{name}:)", assembly, re.MULTILINE)
        body = assembly[begin.start() :] if begin else ""
        if not STORE.search(re.split(r"^(?:\}|\.Lfunc_end)", body, maxsplit=1, flags=re.MULTILINE)[0]):
            return name
    return ""


def _translate(name: str, aliases: str, body: str) -> str:
    """Write a module's kernel as LLVM IR, under the module's name: kernels of several modules share one."""
    renamed = body.replace("@main_kernel(", f"@{name}(")
    Path(f"{name}.mlir").write_text(f"{aliases}module {{\n{renamed}}}\n", encoding="utf-8")
    run_program("mlir-translate", ["--mlir-to-llvmir", f"{name}.mlir", "-o", f"{name}.ll"])
    return f"{name}.ll"


def _link_math(triple: str, cpu: str) -> None:
    """Link the functions that kernels call into kernels.bc."""
    package, path = LIBRARIES.get(triple.partition("-")[0], ("", ""))
    if not package:
        return
    library = str(files(package).joinpath(path))
    run_program("llvm-link", ["--internalize", "--only-needed", "kernels.bc", library, "-o", "kernels.bc"])
    if package.startswith("iree"):
        # gfx942 is 9402, gfx1100 is 11000.
        release = int(cpu[3:-2]) * 1000 + int(cpu[-2]) * 100 + int(cpu[-1], 16)
        values = {f"{name} = linkonce_odr hidden addrspace(4) constant i8": value for name, value in CONTROLS.items()}
        values["ISA_version = linkonce_odr hidden addrspace(4) constant i32"] = release
        Path("controls.ll").write_text("".join(f"@__oclc_{name} {value}\n" for name, value in values.items()))
        run_program("llvm-link", ["kernels.bc", "controls.ll", "-o", "kernels.bc"])
