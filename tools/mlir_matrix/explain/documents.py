"""Types of the documents of ``matrix explain``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.documents import document
from mlir_matrix.compare.documents import ComparedOutput
from mlir_matrix.plan.documents import HermeticCommand, PlannedEnvironment


class ExplainedRule(TypedDict):
    """A rule that applies to the test."""

    kind: str
    suite: str | None
    position: str | None
    text: str
    wins: bool
    """False if an earlier rule of its kind, or an exclusion, decides."""
    reason: NotRequired[str]
    outcome: NotRequired[str]
    link: NotRequired[str | None]


class ExplainedAction(HermeticCommand):
    """An action of the test."""

    scaled: NotRequired[str]
    """Numbers of its program that were made smaller."""


class ExplainedEnvironment(PlannedEnvironment):
    """An environment of the test's actions."""

    bound: list[str]
    """Files of this machine that actions can read."""


@document
class TestExplanation(TypedDict):
    """All that decides one test (`matrix explain --format json`; of several tests a list)."""

    schema: Literal["mlir-matrix/explanation/v1"]
    id: str
    summary: dict[str, int]
    framework: str
    pipeline: str
    target: str
    workload: str
    property: NotRequired[dict[str, object]]
    """The tested property, and the cell that it compares with."""
    suite: str | None
    selected: bool
    outcome: str | None
    reason: str
    definitions: list[dict[str, str]]
    """The `kind`, `name` and `position` of each thing that the identifier names."""
    rules: list[ExplainedRule]
    expectation: dict[str, str | None] | None
    route: dict[str, object] | None
    recipe: dict[str, object] | None
    """Of an IR test: the tool of its step, and why this one."""
    actions: list[ExplainedAction]
    environments: list[ExplainedEnvironment]
    tolerances: list[dict[str, object]]
    """Layers by `output`, from general to specific."""


Conclusion = Literal["nothing is suspected", "test is wrong", "reference is suspected", "undecided"]


class Witness(TypedDict):
    """Who computed the outputs: the test, the reference or an oracle."""

    name: str
    """`test`, `reference`, or `A`, `B`, … for oracles."""
    test: NotRequired[str]
    """The identifier of the test, or of the oracle; absent for the reference."""
    oracle: NotRequired[str]
    """Why the oracle is independent, as its pipeline or target states."""
    outcome: NotRequired[Outcome]
    """Against the reference, under the tolerance of its own cell."""
    reason: NotRequired[str]
    unusable: NotRequired[str]
    """Why it has no outputs to compare; absent if it has."""


class OraclesSummary(TypedDict):
    """How many oracles agree, in all outputs."""

    oracles: int
    """Those with outputs."""
    with_test: int
    with_reference: int


@document
class Oracles(TypedDict):
    """Who agrees with whom about the outputs of a test (`matrix explain ID --oracles --format json`)."""

    schema: Literal["mlir-matrix/oracles/v1"]
    id: str
    conclusion: Conclusion
    sentence: str
    """The conclusion in words."""
    witnesses: list[Witness]
    outputs: list[ComparedOutput]
    summary: OraclesSummary
