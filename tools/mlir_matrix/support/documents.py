"""Types of the document of ``matrix report support``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.base.documents import document

AnswerWord = Literal["yes", "compiles", "weak", "wrong", "fails", "unknown", "not run", "cannot"]


class FailsIn(TypedDict):
    """A test that fails because of an operator that works in another test."""

    test: str
    answer: AnswerWord
    reason: str


class SupportEntry(TypedDict):
    """Whether a workload or an operator gets through a pipeline to a target."""

    name: str
    """The workload, with a tested property, or the operator as the imported IR spells it."""
    framework: str
    pipeline: str
    target: str
    """The target, with the pins that the suite varies."""
    answer: AnswerWord
    """`unknown`: each test with this operator fails at another one. `not run`: this machine lacks something."""
    stage: NotRequired[Stage]
    """Of `fails`: where."""
    expected: bool
    """True if the suite expects it."""
    reason: str
    """Empty for `yes`; of an expected failure, what the suite states."""
    position: NotRequired[str]
    """Of an expected failure: file, line and column of the rule."""
    test: str
    """The test that decides: of those with this operator, the one that gets furthest."""
    tests: int
    """Number of tests with it."""
    fails_in: NotRequired[list[FailsIn]]
    """Of an operator that works: tests that fail by it, because their error names it or they have no other operator."""


class SupportSummary(TypedDict):
    """Totals."""

    tests: int
    entries: int
    answers: dict[AnswerWord, int]
    """Number of entries by answer."""


@document
class Support(TypedDict):
    """What works on which path and target (`matrix report support --format json`)."""

    schema: Literal["mlir-matrix/support/v1"]
    by: Literal["workload", "operator"]
    entries: list[SupportEntry]
    summary: SupportSummary
