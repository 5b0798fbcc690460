"""Type of the document of ``matrix bisect``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.actions.runtime.outcomes import Outcome


class ObservedPoint(TypedDict):
    """A test at one release."""

    release: str
    behaviour: str | None
    """The letter of its behaviour; null if nothing can be told."""
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
    """Two releases, with none between of which anything is known, that behave differently."""

    kind: Literal["broke", "fixed", "differs"]
    """``broke``: from a pass to a failure; ``fixed``: back; ``differs``: from one failure to another."""
    before: str
    """The last release with the old behaviour."""
    after: str
    """The first release known to have the new one."""
    between: list[str]
    """Releases of which nothing is known. Each of them, or ``after``, made the change."""
    step: str | None
    """The first step whose output differs; null if all steps give the same."""
    difference: list[str]
    """The difference of the IR after that step, without names of values; empty for outputs that are no IR."""
    commits: str
    """A page with the commits between the releases; empty if their sources are not known."""


class BisectedTest(TypedDict):
    """The result for one test."""

    id: str
    component: str
    points: list[ObservedPoint]
    """The releases, the oldest first."""
    behaviours: list[ObservedBehaviour]
    changes: list[BehaviourChange]
    commands: dict[str, list[str]]
    """By step, the command lines that repeat the newest failure without this program."""
    report: str
    """The report as Markdown."""


class BisectSummary(TypedDict):
    """Numbers of tests."""

    total: int
    changed: int
    """Tests with a change."""


class Bisections(TypedDict):
    """Changes of tests along the releases of a component (`matrix bisect --format json`)."""

    schema: Literal["mlir-matrix/bisect/v1"]
    tests: list[BisectedTest]
    summary: BisectSummary
    log: str
    """The file with all observations, one JSON object a line."""
