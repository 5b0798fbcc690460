"""Compile StableHLO by XLA."""

from __future__ import annotations

import os
from pathlib import Path

from jaxlib import xla_client

from mlir_matrix.actions.api import Action, read_text, under_test


def run(action: Action) -> None:
    """Write the serialised executable: the first of a process, because names of later ones are numbered on."""
    os.environ["NPROC"] = "1"
    os.environ["XLA_FLAGS"] = f"--xla_cpu_max_isa={action.params['parameters']['isa']}"
    client = xla_client.make_cpu_client()
    devices = xla_client.DeviceList(tuple(client.local_devices()))
    text = read_text(action.inputs["ir"], "the StableHLO")
    with under_test():
        executable = client.compile_and_load(text, devices, xla_client.CompileOptions())
    Path(action.outputs["out"]).write_bytes(executable.serialize())
