"""Run a program for GPUs on lavapipe, Mesa's Vulkan for the CPU."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from mlir_matrix.actions.api import Action, ActionFailed, gpu_program, library, load, run_with_libraries, write_json

#: A name without a folder: the loader looks among the libraries of its own prefix.
DRIVER = {"file_format_version": "1.0.0", "ICD": {"library_path": "libvulkan_lvp.so", "api_version": "1.3.0"}}


def run(action: Action) -> None:
    write_json("driver.json", DRIVER)
    variables = {
        "VK_ICD_FILENAMES": os.path.abspath("driver.json"),
        "LP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": os.getcwd(),
    }
    run_with_libraries(action, execute, variables=variables)


def execute(action: Action) -> None:
    program = gpu_program.GpuProgram(action.inputs["artifact"])
    device = load(action.inputs["vulkan.py"], "Device")(library("libvulkan.so.1"))
    # Each kernel is a module of its own, in the order of the host's modules.
    for number, (name, types) in enumerate(program.signatures.items()):
        device.load(name, Path(program.parts[f"{number}.spv"]).read_bytes(), len(types))

    def launch(one: gpu_program.Launch) -> None:
        # Scalars are in buffers, too.
        held = [
            each if isinstance(each, gpu_program.Memref) else ctypes.create_string_buffer(each)
            for each in one.arguments
        ]
        device.launch(one.kernel, one.grid, one.block, [extent(each) for each in held])

    program.call(action, launch)


def extent(argument: gpu_program.Memref | ctypes.Array[ctypes.c_char]) -> tuple[int, int]:
    """Return the addresses where an argument begins and ends. Raise ActionFailed if kernels read it in another form."""
    if not isinstance(argument, gpu_program.Memref):
        return ctypes.addressof(argument), ctypes.addressof(argument) + len(argument)
    if argument.element == "index":
        raise ActionFailed("a buffer of indices has 64 bits for each in the host's code, and 32 in that of kernels")
    return argument.extent
