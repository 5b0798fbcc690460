"""Validate each module of SPIR-V assembly."""

from __future__ import annotations

import re
from pathlib import Path

from mlir_matrix.actions.api import Action, read_text, run_program


def run(action: Action) -> None:
    text = read_text(action.inputs["ir"], "SPIR-V assembly")
    # The disassembler begins each module so; LLVM, which writes one only, writes no such line.
    for module in filter(str.strip, re.split(r"^; SPIR-V$", text, flags=re.MULTILINE)):
        Path("module.txt").write_text(module, encoding="utf-8")
        environment = ["--target-env", action.params["parameters"]["api"]]
        run_program("spirv-as", [*environment, "--preserve-numeric-ids", "module.txt", "-o", "module.spv"])
        run_program("spirv-val", [*environment, "module.spv"], failure="the SPIR-V is not valid")
    Path(action.outputs["out"]).write_text(text, encoding="utf-8")
