"""``matrix machine probe``: print a machine file of this machine."""

from __future__ import annotations

import os

from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.machines.probe import probe, to_yaml

SCHEMA = "mlir-matrix/probe/v1"


@verb("probe", "matrix machine probe > matrix/machines/NAME.yaml", "matrix machine probe --format json")
@options.output_format("yaml", "json")
@options.session()
def probe_command(form: str, current: Session) -> None:
    """Print a machine file of this machine: processor, memory, disk, GPUs, devices, emulators and programs.

    Edit its part `wants`, which is a comment, and keep the file as matrix/machines/NAME.yaml of a catalog.
    """
    has = probe(current.home, current.catalog)
    data = has.model_dump(by_alias=True, mode="json")
    summary = {"architecture": has.cpu.architecture, "cores": has.cores, "gpus": len(has.gpus)}
    document = {"schema": SCHEMA, "summary": summary, "has": data}
    show(form, document, to_yaml(has, os.uname().nodename).splitlines())
