"""Type of the document of ``matrix explain``."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

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


class TestExplanation(TypedDict):
    """All that decides one test (`matrix explain --format json`; of several tests a list)."""

    schema: Literal["mlir-matrix/explanation/v1"]
    id: str
    summary: dict[str, int]
    framework: str
    pipeline: str
    target: str
    workload: str
    property: NotRequired[dict[str, Any]]
    """The tested property, and the cell that it compares with."""
    suite: str | None
    selected: bool
    outcome: str | None
    reason: str
    definitions: list[dict[str, str]]
    """The `kind`, `name` and `position` of each thing that the identifier names."""
    rules: list[ExplainedRule]
    expectation: dict[str, str | None] | None
    route: dict[str, Any] | None
    recipe: dict[str, Any] | None
    """Of an IR test: the tool of its step, and why this one."""
    actions: list[ExplainedAction]
    environments: list[ExplainedEnvironment]
    tolerances: list[dict[str, Any]]
    """Layers by `output`, from general to specific."""
