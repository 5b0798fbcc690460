"""The document of ``matrix reduce``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document

#: What of a failure must stay.
By = Literal["behaviour", "outcome"]


class ReducedSize(TypedDict):
    """How large a program is."""

    operations: int | None
    """Without modules, functions, and what ends a block; null for IR that the release cannot read."""
    lines: int
    """Of the IR as the release prints it."""


class ReducedTest(TypedDict):
    """A failing test, and the smallest program that fails in the same way."""

    id: str
    outcome: Outcome
    reason: str
    behaviour: str
    """What candidates had to show."""
    level: str
    """What gives the IR that was reduced: ``import``, a step, or ``file``."""
    step: str
    """The step that is wrong; empty if it is not known."""
    good: str
    """What is right where the test is wrong: pins, or a pipeline and target; empty if nothing was needed, or known."""
    before: ReducedSize
    after: ReducedSize
    candidates: int
    """How many were tested."""
    seconds: float
    """In all: the test, its level, the search, and the verification."""
    search_seconds: float
    complete: bool
    """False if time was up before nothing could be removed any more."""
    verified: bool
    """Whether the result failed in the same way in new processes, by ``command`` where there is one."""
    passes: list[str]
    """Those of the failing step's passes that suffice, after ``the patterns of the step`` if they fail only with these; empty if
    they were not reduced."""
    file: str
    """The reduced IR."""
    folder: str
    """The folder of all that was written."""
    command: str
    """With this program."""
    plain: list[str]
    """Command lines of the compiler's own programs; empty if there are none."""
    written: NotRequired[str]
    """The workload that was written by ``--write``."""
    log: str


class ReductionSummary(TypedDict):
    """Numbers of tests."""

    total: int
    reduced: int
    """Those that cannot be made smaller and were verified."""


@document
class Reductions(TypedDict):
    """Reduced tests (`matrix reduce --format json`)."""

    schema: Literal["mlir-matrix/reduce/v1"]
    tests: list[ReducedTest]
    summary: ReductionSummary
