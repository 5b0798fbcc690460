"""``matrix machine check``: compare this machine with its file."""

from __future__ import annotations

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.machines.find import find_machine
from mlir_matrix.machines.probe import differences, probe

SCHEMA = "mlir-matrix/machine-check/v1"


@verb("check", "matrix machine check x86-64-builder", "matrix machine check build/this.yaml --format json")
@click.argument("name", required=False, metavar="[NAME|FILE]")
@options.output_format("text", "json")
@options.session()
def check_command(name: str | None, form: str, current: Session) -> int:
    """Check that this machine has what its file states. Without a name, the catalogs must have one machine.

    Exit code: 0 if it has everything, else 1.
    """
    known = list(current.catalog.machines)
    if name is None and len(known) != 1:
        raise UsageError(f"name a machine or a file; machines of the catalogs: {', '.join(known) or 'none'}")
    machine = find_machine(current.catalog, name or known[0])
    found = differences(machine, probe(current.home, current.catalog))
    summary = {"machine": machine.name, "differences": len(found)}
    document = {"schema": SCHEMA, "summary": summary, "differences": found}
    show(form, document, found or [f"{machine.name}: this machine has everything that {machine.source.file} states"])
    return 1 if found else 0
