"""Types of the documents of ``matrix machine`` and of recorded durations."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document
from mlir_matrix.catalog.models.machines import Has, Wants
from mlir_matrix.plan.documents import Time


@document
class Probe(TypedDict):
    """The properties of this machine (`matrix machine probe --format json`)."""

    schema: Literal["mlir-matrix/probe/v1"]
    summary: dict[str, str | int]
    has: Has


@document
class MachineCheck(TypedDict):
    """The differences between this machine and its file (`matrix machine check --format json`)."""

    schema: Literal["mlir-matrix/machine-check/v1"]
    summary: dict[str, str | int]
    differences: list[str]


class ListedMachine(TypedDict):
    """A machine file of a catalog."""

    name: str
    file: str
    description: str
    has: Has
    wants: Wants


@document
class Machines(TypedDict):
    """The machines of the catalogs (`matrix machine list --format json`)."""

    schema: Literal["mlir-matrix/machines/v1"]
    summary: dict[str, int]
    machines: list[ListedMachine]


class MachineLoad(TypedDict):
    """The load of a machine."""

    name: str
    file: str
    tests: int
    minutes: float
    budget_minutes: float | None
    left_out: dict[str, int]
    """Number of tests by the reason why the machine does not run them."""


class CellOfFleet(TypedDict):
    """Tests of one cell that no machine runs, or several."""

    cell: str
    tests: list[str]
    reason: NotRequired[str]
    """Why no machine runs them."""
    machines: NotRequired[list[str]]


@document
class Fleet(TypedDict):
    """The tests that several machines run, and those that none runs (`matrix machine fleet --format json`)."""

    schema: Literal["mlir-matrix/fleet/v1"]
    summary: dict[str, int]
    machines: list[MachineLoad]
    nobody: list[CellOfFleet]
    several: list[CellOfFleet]


class RecordedTest(TypedDict):
    """The recent executions of one test."""

    seconds: float
    """Median seconds of all its actions."""
    last_run: Time
    """When it was last executed."""
    last_failure: NotRequired[Time]
    """When it last ended in an unexpected outcome; absent if it never did."""


class DurationsSummary(TypedDict):
    """Totals."""

    tests: int
    seconds: float
    """The sum over all tests."""


@document
class Durations(TypedDict):
    """Recorded durations of tests (`matrix history export`), for `--durations` and `--history`."""

    schema: Literal["mlir-matrix/durations/v1"]
    taken: str
    """When the document was made."""
    summary: DurationsSummary
    tests: dict[str, RecordedTest]
