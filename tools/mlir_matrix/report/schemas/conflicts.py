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
    #: Where it shows: releases, or documents of results.
    where: list[str]


class ConflictPair(TypedDict):
    """Two tests of which every change passes exactly one."""

    tests: tuple[str, str]
    #: What shows it: one input and what is made of it, or releases under which they pass in turn.
    how: Literal["input", "releases"]
    #: Where it shows: releases, or documents of results.
    where: list[str]
    #: Null where no suite states it.
    known: KnownConflict | None


class StaleConflict(KnownConflict):
    """A pair that a suite lists and that does not conflict."""

    tests: tuple[str, str]


class Conflicts(TypedDict):
    """Pairs of IR tests that cannot both pass (`matrix conflicts --format json`)."""

    schema: Literal["mlir-matrix/conflicts/v1"]
    #: How many IR tests were looked at.
    tests: int
    where: list[str]
    conflicts: list[ConflictPair]
    repeated: list[RepeatedPair]
    stale: list[StaleConflict]
