"""Decompose an exported PyTorch program."""

from __future__ import annotations

import torch

from mlir_matrix.actions.api import Action, under_test


def run(action: Action) -> None:
    """Write the program in the operators of Core ATen."""
    torch.set_num_threads(1)
    with under_test():
        program = torch.export.load(action.inputs["ir"]).run_decompositions()
    for node in program.graph.nodes:
        for name in ("stack_trace", "from_node"):
            node.meta.pop(name, None)
    torch.export.save(program, action.outputs["out"])
