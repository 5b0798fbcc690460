"""Machines of the small catalog of ``support.catalogs``, and histories of its tests."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.choose import MachineChoice, choose_for
from mlir_matrix.fleet.durations import Snapshot
from support.catalogs import catalog, entry

HAS = "cpu: {architecture: m, level: null}, cores: 2, memory-gib: 8"
CATALOG = catalog(
    {
        "smoke": "blocks: [{product: {framework: [pytorch, jax], pipeline: [linalg-loops], target: [x86_64]}}]\nsteps: ['*']",
        "wide": "blocks: [{product: {target: [x86_64]}}]\nexclude: [{tests: ['**/topk'], reason: slow}]",
    }
)
DATE = "2026-03-01T00:00:00.000Z"


def machine(wants: str = "{}", has: str = HAS) -> Entry[Machine]:
    """A machine from YAML; ``wants`` is in line 3 of its file."""
    return entry("machines", Machine, "box", f"description: d\nhas: {{{has}}}\nwants: {wants}\n")


def suite_tests(*suites: str, of: Catalog = CATALOG) -> list[Test]:
    return list(choose(of, suites).tests())


def day(number: int, hour: int = 0) -> str:
    """A time of February 2026."""
    return f"2026-02-{number:02}T{hour:02}:00:00.000Z"


def chosen(
    box: Entry[Machine],
    tests: list[Test],
    history: Snapshot | None = None,
    *,
    of: Catalog = CATALOG,
    actions: Callable[[Test], Collection[str]] = lambda test: [test.id],
    **more: int,
) -> MachineChoice:
    """What a machine chooses; without ``actions``, tests share none."""
    known = history or Snapshot()
    return choose_for(box, tests, catalog=of, pins=Pins(of), history=known, date=DATE, actions=actions, **more)
