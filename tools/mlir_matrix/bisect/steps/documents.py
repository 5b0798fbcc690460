"""Types of the document of ``matrix bisect --over``, and how it is written."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document
from mlir_matrix.bisect.steps.evidence import Answer


class LevelAnswer(TypedDict):
    """What a continuation computes of a level of a failing test."""

    continuation: str
    """Its pipeline and target, with the releases that the test does not have."""
    answer: Answer
    """``wrong alike``: as the failing test computes it, within its bounds, or its run fails in the same way; ``none``: no outputs
    that can be compared."""
    outcome: Outcome
    reason: str
    metrics: dict[str, Any]
    """The number of wrong elements, and the largest errors."""


class TestedLevel(TypedDict):
    """What a part of a failing test gives."""

    after: str
    """The importer or the step."""
    answers: list[LevelAnswer]


class InsideStep(TypedDict):
    """The passes of a wrong step."""

    passes: list[str]
    """Those that may be wrong; one where it is known."""
    by: str
    """The continuation that ran the rest of the passes; empty if no other release did."""
    answers: list[Answer]
    """By number of passes, from 0, that ran as in the test."""
    problem: str
    """Why no pass is known; empty if one is."""
    difference: list[str]
    """From the IR that the other release's passes give to that of the wrong ones, without names of values."""
    command: list[str]
    """The words of a command that runs it; one of ``mlir-opt`` is for the report's folder."""


class LocatedTest(TypedDict):
    """What is known about the wrong step of a failing test."""

    id: str
    outcome: Outcome
    reason: str
    verdict: str
    """The conclusion in one sentence."""
    suspects: list[str]
    """The parts of the test that may be wrong, in their order; none if the continuations contradict each other."""
    certain: bool
    """Whether there is one suspect, and independent continuations agree."""
    levels: list[TestedLevel]
    inside: NotRequired[InsideStep]
    """Absent where more than one part is a suspect."""
    report: str
    """The report as Markdown."""


class SteppedSummary(TypedDict):
    """Numbers of tests."""

    total: int
    certain: int
    """Those whose wrong step is certain."""


@document
class SteppedBisections(TypedDict):
    """The wrong steps of failing tests (`matrix bisect --over steps --format json`)."""

    schema: Literal["mlir-matrix/bisect-steps/v1"]
    tests: list[LocatedTest]
    summary: SteppedSummary
