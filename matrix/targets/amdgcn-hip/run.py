"""Run a program for GPUs by ROCm's runtime, on an AMD GPU."""

from pathlib import Path

from mlir_matrix.actions.api import Action, GpuDevice, gpu_program


def run(action: Action) -> None:
    program = gpu_program.GpuProgram(action.inputs["artifact"])
    device = GpuDevice("hip")
    device.load(Path(program.parts["kernels.hsaco"]).read_bytes(), program.signatures)
    program.call(action, device.run, device.memory)
