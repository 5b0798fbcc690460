"""Run a program for GPUs by the driver of an NVIDIA GPU, which compiles its PTX."""

from pathlib import Path

from mlir_matrix.actions.api import Action, GpuDevice, gpu_program


def run(action: Action) -> None:
    program = gpu_program.GpuProgram(action.inputs["artifact"])
    device = GpuDevice("cuda")
    device.load(Path(program.parts["kernels.s"]).read_bytes(), program.signatures)
    program.call(action, device.run, device.memory)
