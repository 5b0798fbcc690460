"""Types of the document of ``matrix conflicts``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class KnownConflict(TypedDict):
    """The reason that a suite states for a conflict."""

    reason: str
    position: str


class RepeatedPair(TypedDict):
    """Two tests that could be one."""

    tests: tuple[str, str]
    how: Literal["repeated"]
    where: list[str]
    """The evidence: releases, or documents of results."""


class ConflictPair(TypedDict):
    """Two tests that cannot both pass."""

    tests: tuple[str, str]
    how: Literal["input", "releases"]
    """The kind of evidence: outputs of the same input, or releases under which they pass in turn."""
    where: list[str]
    """The evidence: releases, or documents of results."""
    known: KnownConflict | None
    """Null if no suite lists the conflict."""


class StaleConflict(KnownConflict):
    """A pair without a conflict that a suite lists."""

    tests: tuple[str, str]


class ConflictsSummary(TypedDict):
    """Numbers of entries."""

    tests: int
    conflicts: int
    unknown: int
    """Conflicts that no suite lists."""
    repeated: int
    stale: int


class Conflicts(TypedDict):
    """Pairs of IR tests that cannot both pass (`matrix conflicts --format json`)."""

    schema: Literal["mlir-matrix/conflicts/v1"]
    summary: ConflictsSummary
    tests: int
    """Number of IR tests."""
    where: list[str]
    conflicts: list[ConflictPair]
    repeated: list[RepeatedPair]
    stale: list[StaleConflict]
