"""Types of the documents of ``matrix history``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.report.schemas.run import Time


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


class Durations(TypedDict):
    """What history says of tests (`matrix history export`), as `--durations` and `--history` read it."""

    schema: Literal["mlir-matrix/durations/v1"]
    taken: str
    """When the document was made."""
    summary: DurationsSummary
    tests: dict[str, RecordedTest]
