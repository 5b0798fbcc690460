"""Find the machines of catalogs, and compare what several machines run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.load import read_document
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.expand.checks.machines import validate_machine
from mlir_matrix.expand.expansion import Test
from mlir_matrix.fleet.choose import MachineChoice

if TYPE_CHECKING:
    from mlir_matrix.fleet.documents import Fleet, MachineLoad


def find_machine(catalog: Catalog, name: str) -> Entry[Machine]:
    """Return a machine by its name or by its file (``FILE.yaml``). Raise UsageError or CatalogError."""
    if not is_file(name):
        if why := catalog.over.get(("machines", name)):
            raise CatalogError(why)
        if name not in catalog.machines:
            near = did_you_mean(name, catalog.machines)
            fix = near or "; make a file of it: matrix machine probe > matrix/machines/NAME.yaml"
            raise UsageError(f"there is no machine '{printable(name)}'{fix}")
        return catalog.machines[name]
    path = Path(name)
    problems = Problems()
    found = read_document(path, name, Machine, problems)
    problems.raise_if_any()
    assert found is not None
    source, document = found
    entry = Entry(name=path.stem, document=document, source=source, root=path.parent, folder=path.parent)
    validate_machine(catalog, entry)
    return entry


def is_file(name: str) -> bool:
    """Return whether an argument names a file rather than a machine of the catalogs."""
    return os.sep in name or name.endswith(".yaml")


#: The row of IR tests, which belong to steps and not to cells.
_IR = "IR tests of steps"


def fleet(tests: Iterable[Test], machines: Sequence[Entry[Machine]], choices: Mapping[str, MachineChoice]) -> Fleet:
    """Return the report. ``tests``: those of all suites; ``choices``: by machine."""
    runs = {name: {test.id for test in choice.tests if test.selected} for name, choice in choices.items()}
    users = Counter(identifier for each in runs.values() for identifier in each)
    reasons = {test.id: test.reason for choice in choices.values() for test in choice.tests if not test.selected}
    known = {test.id: test for test in tests if test.selected}
    nobody = [test for test in known.values() if test.id not in users]
    chosen = {test.id: test for choice in choices.values() for test in choice.tests if test.selected}
    several = [test for test in chosen.values() if users[test.id] > 1]
    return {
        "schema": "mlir-matrix/fleet/v1",
        "summary": {
            "machines": len(machines),
            "tests": len(known | chosen),
            "nobody": len(nobody),
            "several": len(several),
        },
        "machines": [_load(machine, choices[machine.name]) for machine in machines],
        "nobody": [
            {
                "cell": cell,
                "tests": [test.id for test in found],
                "reason": next((reasons[test.id] for test in found if test.id in reasons), "in no suite of a machine"),
            }
            for cell, found in _by_cell(nobody).items()
        ],
        "several": [
            {
                "cell": cell,
                "tests": [test.id for test in found],
                "machines": [name for name, own in runs.items() if any(test.id in own for test in found)],
            }
            for cell, found in _by_cell(several).items()
        ],
    }


def _load(machine: Entry[Machine], choice: MachineChoice) -> MachineLoad:
    return {
        "name": machine.name,
        "file": machine.source.file,
        "tests": sum(test.selected for test in choice.tests),
        "minutes": round(choice.minutes, 3),
        "budget_minutes": machine.document.wants.budget_minutes,
        "left_out": {left.value: number for left, number in choice.counts.items()},
    }


def _by_cell(tests: Iterable[Test]) -> dict[str, list[Test]]:
    found: dict[str, list[Test]] = {}
    for test in tests:
        found.setdefault(_IR if test.is_ir else test.identity.cell, []).append(test)
    return found
