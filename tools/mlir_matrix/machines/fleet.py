"""Compare what several machines run: tests that none runs, those that several run, and the load of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.expand.expansion import Test
from mlir_matrix.machines.choose import Choice

SCHEMA = "mlir-matrix/fleet/v1"
#: The cell of IR tests, which are of steps.
_IR = "IR tests of steps"


def fleet(tests: Iterable[Test], machines: Sequence[Entry[Machine]], choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the report as JSON. ``tests``: those of all suites; ``choices``: by machine."""
    runs = {name: {test.id for test in choice.tests if test.selected} for name, choice in choices.items()}
    users = Counter(identifier for each in runs.values() for identifier in each)
    reasons = {test.id: test.reason for choice in choices.values() for test in choice.tests if not test.selected}
    known = {test.id: test for test in tests if test.selected}
    nobody = [test for test in known.values() if test.id not in users]
    chosen = {test.id: test for choice in choices.values() for test in choice.tests if test.selected}
    several = [test for test in chosen.values() if users[test.id] > 1]
    return {
        "schema": SCHEMA,
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


def _load(machine: Entry[Machine], choice: Choice) -> dict[str, Any]:
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
        found.setdefault(_IR if test.is_ir else test.cell, []).append(test)
    return found
