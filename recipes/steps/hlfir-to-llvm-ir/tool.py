"""Lower HLFIR to LLVM IR; the line of the kernel's tensors stays the first."""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.actions.api import Action, read_text, run_program


def run(action: Action) -> None:
    """Read ``ir``, write ``out``."""
    text = read_text(action.inputs["ir"], "the HLFIR")
    Path("kernel.mlir").write_text(text)
    options = ["-fc1", "-O1", "-fstack-arrays", "-ffp-contract=off", "-emit-llvm"]
    run_program("flang", [*options, "kernel.mlir", "-o", "kernel.ll"], failure="flang refuses the HLFIR")
    header = text.partition("\n")[0].replace("//", ";", 1)
    Path(action.outputs["out"]).write_text(f"{header}\n{read_text('kernel.ll', 'the LLVM IR')}")
