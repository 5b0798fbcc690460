"""Run a program for GPUs by PoCL, an implementation of OpenCL on the CPU."""

from __future__ import annotations

import ctypes
import os
import shlex
from pathlib import Path
from typing import Any

from mlir_matrix.actions.api import (
    Action,
    ActionFailed,
    MachineFailed,
    command_of,
    gpu_program,
    library,
    run_with_libraries,
)

#: PoCL starts this program of Debian by an absolute path, which an action does not have. The other one fits in its place.
TRANSLATOR, SHORTER = b"/usr/bin/llvm-spirv-18", b"./llvm-spirv"
#: The part of a program with its SPIR-V.
KERNELS = "0.spv"
EMPTY_ARCHIVE = b"!<arch>\n"
#: Errors of OpenCL: CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY.
NO_MEMORY = (-4, -6)
#: Of cl.h: CL_DEVICE_TYPE_CPU, CL_DEVICE_IL_VERSION, CL_PROGRAM_BUILD_LOG.
DEVICE_TYPE_CPU, DEVICE_IL_VERSION, PROGRAM_BUILD_LOG = 2, 0x105B, 0x1183


def run(action: Action) -> None:
    place = copy_of_pocl(Path("pocl").absolute())
    tools = Path("tools").absolute()
    tools.mkdir()
    write_script(Path("llvm-spirv"), command_of("llvm-spirv-18"))
    # Kernels are linked with the compiler's functions, such as those of f16. All are in the shared library.
    write_script(tools / "ld", [*command_of("ld"), f"-L{tools}"])
    (tools / "libgcc.a").write_bytes(EMPTY_ARCHIVE)
    (tools / "libgcc_s.so").symlink_to(library("libgcc_s.so.1"))
    variables = {
        "PATH": str(tools), "OCL_ICD_VENDORS": str(place), "POCL_CACHE_DIR": os.path.abspath("cache"),
        "POCL_LLVM_CPU_NAME": "x86-64", "POCL_DEVICES": "basic",
    }  # fmt: skip
    run_with_libraries(action, execute, variables=variables)


def copy_of_pocl(folder: Path) -> Path:
    """Lay out a copy of PoCL that finds its files and its translator in the folder of this action; return its library."""
    original = Path(library("libpocl.so.2"))
    place = folder / "lib/x/libpocl.so.2"
    place.parent.mkdir(parents=True)
    (folder / "share").mkdir()
    content = original.read_bytes()
    if TRANSLATOR not in content:
        raise MachineFailed(f"PoCL takes no SPIR-V: its library does not name {TRANSLATOR.decode()}")
    place.write_bytes(content.replace(TRANSLATOR, SHORTER.ljust(len(TRANSLATOR), b"\0")))
    (place.parent / "pocl").symlink_to(original.parent / "pocl")
    (folder / "share/pocl").symlink_to(original.parents[2] / "share/pocl")
    return place


def write_script(path: Path, words: list[str]) -> None:
    """Write a command line as a program, because PoCL starts programs itself."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def execute(action: Action) -> None:
    program = gpu_program.GpuProgram(action.inputs["artifact"])
    program.call(action, Device(Path(program.parts[KERNELS]).read_bytes()).launch)


class Device:
    """A queue of PoCL's device, with kernels that are built for it."""

    def __init__(self, il: bytes) -> None:
        self.cl = ctypes.CDLL(library("libOpenCL.so.1"))
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithIL", "clCreateKernel"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        platform, device = ctypes.c_void_p(), ctypes.c_void_p()
        self.check("clGetPlatformIDs", 1, ctypes.byref(platform), None)
        self.check("clGetDeviceIDs", platform, ctypes.c_uint64(DEVICE_TYPE_CPU), 1, ctypes.byref(device), None)
        versions = self.text("clGetDeviceInfo", device, DEVICE_IL_VERSION)
        if "SPIR-V" not in versions:
            raise MachineFailed(f"PoCL takes no SPIR-V: its intermediate languages are {versions or 'none'}")
        context = self.made("clCreateContext", None, 1, ctypes.byref(device), None, None)
        self.queue = self.made("clCreateCommandQueue", context, device, ctypes.c_uint64(0))
        self.program = self.made("clCreateProgramWithIL", context, il, ctypes.c_size_t(len(il)))
        status = self.cl.clBuildProgram(self.program, 1, ctypes.byref(device), None, None, None)
        if status:
            log = self.text("clGetProgramBuildInfo", self.program, device, PROGRAM_BUILD_LOG)
            raise ActionFailed(f"PoCL does not build the kernels: OpenCL's error {status}", diagnostics=f"{log}\n")

    def launch(self, launch: gpu_program.Launch) -> None:
        kernel = self.made("clCreateKernel", self.program, launch.kernel.encode())
        for index, each in enumerate(launch.parameters):
            if each.pointer:
                # The device is this CPU: any memory of the process is shared.
                memory = ctypes.c_void_p.from_address(each.address)
                self.run("clSetKernelArgSVMPointer", kernel, index, memory)
            else:
                self.run("clSetKernelArg", kernel, index, ctypes.c_size_t(each.bytes), ctypes.c_void_p(each.address))
        block = (ctypes.c_size_t * 3)(*launch.block)
        whole = (ctypes.c_size_t * 3)(*(grid * size for grid, size in zip(launch.grid, launch.block, strict=True)))
        self.run("clEnqueueNDRangeKernel", self.queue, kernel, 3, None, whole, block, 0, None, None)
        self.run("clFinish", self.queue)

    def run(self, name: str, *arguments: Any) -> None:
        """Call a function that fails if a kernel or its launch is wrong."""
        status = getattr(self.cl, name)(*arguments)
        if status in NO_MEMORY:
            raise MachineFailed(f"{name} fails with OpenCL's error {status}: there is no free memory")
        if status:
            raise ActionFailed(f"{name} fails with OpenCL's error {status}")

    def check(self, name: str, *arguments: Any) -> None:
        """Call a function that no program makes fail."""
        status = getattr(self.cl, name)(*arguments)
        if status:
            raise MachineFailed(f"{name} fails with OpenCL's error {status}")

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Return the object that a function makes."""
        status = ctypes.c_int32()
        value = getattr(self.cl, name)(*arguments, ctypes.byref(status))
        if status.value:
            raise ActionFailed(f"{name} fails with OpenCL's error {status.value}")
        return ctypes.c_void_p(value)

    def text(self, name: str, *arguments: Any) -> str:
        """Return a text that a function writes."""
        text = ctypes.create_string_buffer(1 << 16)
        self.check(name, *arguments, ctypes.c_size_t(len(text)), text, None)
        return text.value.decode("utf-8", "replace").strip()
