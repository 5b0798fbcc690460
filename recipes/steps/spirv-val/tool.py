"""Validate each module of SPIR-V assembly."""

from __future__ import annotations

import re
from pathlib import Path

from mlir_matrix.actions.api import Action, gpu_program, read_text, run_program


def run(action: Action) -> None:
    text = read_text(gpu_program.take(action, "kernels.s"), "SPIR-V assembly")
    assembled = []
    # The disassembler begins each module so; LLVM, which writes one only, writes no such line.
    for number, module in enumerate(filter(str.strip, re.split(r"^; SPIR-V$", text, flags=re.MULTILINE))):
        assembled.append(f"{number}.spv")
        Path("module.txt").write_text(module, encoding="utf-8")
        environment = ["--target-env", action.params["parameters"]["api"]]
        run_program("spirv-as", [*environment, "--preserve-numeric-ids", "module.txt", "-o", assembled[-1]])
        run_program("spirv-val", [*environment, assembled[-1]], failure="the SPIR-V is not valid")
    Path("kernels.s").write_text(text, encoding="utf-8")
    gpu_program.give(action, "kernels.s", *assembled)
