"""What ``matrix conflicts --format json`` prints; its JSON Schema is made from this."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class KnownConflict(TypedDict):
    """What a suite says of a pair."""

    reason: str
    position: str


class RepeatedPair(TypedDict):
    """Two tests that could be one."""

    tests: tuple[str, str]
    how: Literal["repeated"]
    where: list[str]
    """Where it shows: releases, or documents of results."""


class ConflictPair(TypedDict):
    """Two tests of which every change passes exactly one."""

    tests: tuple[str, str]
    how: Literal["input", "releases"]
    """What shows it: one input and what is made of it, or releases under which they pass in turn."""
    where: list[str]
    """Where it shows: releases, or documents of results."""
    known: KnownConflict | None
    """Null where no suite states it."""


class StaleConflict(KnownConflict):
    """A pair that a suite lists and that does not conflict."""

    tests: tuple[str, str]


class Conflicts(TypedDict):
    """Pairs of IR tests that cannot both pass (`matrix conflicts --format json`)."""

    schema: Literal["mlir-matrix/conflicts/v1"]
    tests: int
    """How many IR tests were looked at."""
    where: list[str]
    conflicts: list[ConflictPair]
    repeated: list[RepeatedPair]
    stale: list[StaleConflict]
