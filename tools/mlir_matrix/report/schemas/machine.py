"""Types of the documents of ``matrix machine`` and ``matrix doctor``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.catalog.models.machines import Has, Wants


class Probe(TypedDict):
    """What this machine has (`matrix machine probe --format json`)."""

    schema: Literal["mlir-matrix/probe/v1"]
    summary: dict[str, str | int]
    has: Has


class MachineCheck(TypedDict):
    """What this machine lacks of its file (`matrix machine check --format json`)."""

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


class Machines(TypedDict):
    """The machines of the catalogs (`matrix machine list --format json`)."""

    schema: Literal["mlir-matrix/machines/v1"]
    summary: dict[str, int]
    machines: list[ListedMachine]


class MachineLoad(TypedDict):
    """What a machine runs."""

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


class Fleet(TypedDict):
    """What several machines run, and what none runs (`matrix machine fleet --format json`)."""

    schema: Literal["mlir-matrix/fleet/v1"]
    summary: dict[str, int]
    machines: list[MachineLoad]
    nobody: list[CellOfFleet]
    several: list[CellOfFleet]


class DoctorEnvironment(TypedDict):
    """An environment, and whether it can be used here."""

    name: str
    pins: dict[str, str]
    state: str
    to_fetch: NotRequired[int]
    """Bytes; likewise `disk`. Absent if it is unavailable."""
    disk: NotRequired[int]
    reason: NotRequired[str]


class DoctorSuite(TypedDict):
    """The tests of a suite that can run now, after downloads, or not at all."""

    name: str
    tests: int
    ready: int
    to_fetch: int
    blocked: int
    reasons: list[dict[str, str | int]]
    """Each `reason` of blocked tests, and their number."""
    environments_to_fetch: list[str]
    bytes_to_fetch: int


class VanishingPin(TypedDict):
    """A release that its source will replace."""

    component: str
    release: str
    environment: str
    suites: list[str]
    fetched: bool
    installed: bool
    reason: str


class Doctor(TypedDict):
    """What this machine has and lacks (`matrix doctor --format json`)."""

    schema: Literal["mlir-matrix/doctor/v1"]
    summary: dict[str, int | dict[str, int]]
    python: str
    """The Python of the program's own virtual environment."""
    interpreter: dict[str, str | bool]
    machine: dict[str, str | int | bool]
    tools: dict[str, dict[str, str | None]]
    """Programs of the machine: path, version and use."""
    bazel: dict[str, str | bool | tuple[str, ...] | list[str]]
    home: dict[str, str | int | dict[str, int] | None]
    environments: list[DoctorEnvironment]
    suites: list[DoctorSuite]
    vanishing: list[VanishingPin]
