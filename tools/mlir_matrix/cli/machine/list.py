"""``matrix machine list``: list the machines of the catalogs."""

from __future__ import annotations

from rich.markup import escape

from mlir_matrix.base.layout import columns
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Entry
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session

SCHEMA = "mlir-matrix/machines/v1"


@verb("list", "matrix machine list", "matrix machine list --catalog ../acme --format json")
@options.output_format("table", "json")
@options.session()
def list_command(form: str, current: Session) -> None:
    """List the machines of the catalogs: matrix/machines/NAME.yaml here and in each --catalog."""
    machines = current.catalog.machines.values()
    document = {
        "schema": SCHEMA,
        "summary": {"machines": len(machines)},
        "machines": [
            {"name": each.name, "file": each.source.file, **each.document.model_dump(by_alias=True, mode="json")}
            for each in machines
        ],
    }
    heading = ("machine", "cpu", "cores", "memory", "suites", "budget", "")
    show(form, document, columns(heading, [_row(each) for each in machines], right=(2, 3, 5)), markup=True)


def _row(machine: Entry[Machine]) -> tuple[str, ...]:
    has, wants = machine.document.has, machine.document.wants
    budget = f"{wants.budget_minutes:g} min" if wants.budget_minutes else ""
    cells = (
        machine.name,
        has.cpu.level or has.cpu.architecture,
        str(has.cores),
        f"{has.memory_gib} GiB",
        " ".join(wants.suites or (DEFAULT_SUITE,)),
        budget,
        " ".join(machine.document.description.split()),
    )
    return tuple(map(escape, cells))
