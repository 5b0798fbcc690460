"""Types of the document of ``matrix bisect``, and how it is written."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document


class ObservedPoint(TypedDict):
    """A test at one release or commit."""

    release: str
    behaviour: str | None
    """The letter of its behaviour; several, separated by ``/``, if it is flaky; null if it is unknown."""
    observations: dict[str, int]
    """The number of times of each behaviour."""
    outcome: Outcome
    reason: str
    duration_s: float
    cached: bool


class ObservedBehaviour(TypedDict):
    """A way in which a test ends."""

    name: str
    """A letter, in the order of the first releases."""
    outcome: Outcome
    description: str


class BehaviourChange(TypedDict):
    """Two releases with different behaviours, and the points between them."""

    kind: Literal["broke", "fixed", "differs"]
    """``broke``: from a pass to a failure; ``fixed``: back; ``differs``: from one failure to another."""
    before: str
    """The last release with the old behaviour."""
    after: str
    """The first release known to have the new one."""
    candidates: list[str]
    """The releases or commits that may have made the change, the most likely first; one where it is certain."""
    marked: list[str]
    """Those of several commits that change files of the passes of the first step whose IR differs."""
    confidence: float
    """The probability that one of the candidates made it."""
    step: str | None
    """The first step whose output differs; null if all steps give the same, or were not compared."""
    difference: list[str]
    """The difference of the IR after that step, without names of values; empty for outputs that are no IR."""
    not_compared: str
    """Why the steps were not compared; empty if they were."""
    commits: str
    """A page with the commits between the releases; empty if their sources are not known."""


class BisectedTest(TypedDict):
    """The result for one test."""

    id: str
    component: str
    scaled: str
    """Of a program that was too large for a test: which of its numbers were made smaller; else empty."""
    points: list[ObservedPoint]
    """The observations, the oldest release or commit first."""
    behaviours: list[ObservedBehaviour]
    changes: list[BehaviourChange]
    problem: str
    """Why a search has no answer, or one that does not explain all observations; else empty."""
    commands: dict[str, list[str]]
    """By step, the command lines that repeat the newest failure without this program."""
    report: str
    """The report as Markdown."""
    log: str
    """The file with all observations, one JSON object a line."""


class BisectSummary(TypedDict):
    """Numbers of tests."""

    total: int
    changed: int
    """Tests with a change."""


@document
class Bisections(TypedDict):
    """Changes of tests along the releases of a component (`matrix bisect --format json`)."""

    schema: Literal["mlir-matrix/bisect/v1"]
    tests: list[BisectedTest]
    summary: BisectSummary
