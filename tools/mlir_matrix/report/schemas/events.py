"""Types of the lines of ``matrix run --events``, written by ``report/events.py``. Within a version, keys may be added."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from mlir_matrix.plan.documents import Time
from mlir_matrix.report.schemas.run import StartedRun, Summary, TestEntry

_LINE = "A line of `matrix run --events`. A last line without an end was cut off: it is no event."


class Line(TypedDict):
    """A line, of at most 4,000 bytes."""

    time: Time
    file: NotRequired[str]
    """Present if the line is cut: the file has the event in full. Long texts are cut, other long values are empty or absent."""


class Planned(Line):
    """The tests are chosen. It is the first event."""

    event: Literal["planned"]
    schema: Literal["mlir-matrix/events/v1"]
    run: StartedRun
    tests: int
    """All of them will be `finished`; `unsupported` of them do not run."""
    unsupported: int


class Started(Line):
    """An action is being executed. Bazel does not report this."""

    event: Literal["started"]
    action: str
    """Its identifier, as in the plan."""
    kind: str
    """The tool: a module of `mlir_matrix.actions.tools`."""
    environment: str


class Finished(Line):
    """A test has its outcome: one event per test. Tests that do not run come last."""

    event: Literal["finished"]
    cell: str
    """The row of the table that the test is in."""
    test: TestEntry


class CellState(Line):
    """A row of the table: a cell, or the IR tests of all steps. Its first action starts, or all its tests have outcomes.

    A row in which no test runs has no such event, and neither have bisections.
    """

    event: Literal["cell"]
    cell: str
    state: Literal["started", "finished"]
    tests: int
    """Its tests that run."""


class PackageState(Line):
    """A package is being installed: at most one event a second, and one at the end."""

    event: Literal["package"]
    package: str
    state: Literal["fetching", "building", "installed", "error"]
    received: int
    """Bytes so far; of a build: steps."""
    total: int
    """Bytes or steps in all; 0 if unknown."""
    error: NotRequired[str]


class Ended(Line):
    """The run has ended. Without this event it was killed, or the infrastructure failed."""

    event: Literal["ended"]
    summary: Summary
    interrupted: bool
    executed: int
    """Number of executed actions; the others were cached."""


Event = Annotated[
    Planned | Started | CellState | Finished | PackageState | Ended, Field(discriminator="event", description=_LINE)
]
