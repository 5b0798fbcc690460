"""What ``matrix opposing --format json`` prints; its JSON Schema is made from this."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class KnownOpposition(TypedDict):
    """What a suite says of a pair."""

    reason: str
    position: str


class RepeatedPair(TypedDict):
    """Two tests that could be one."""

    tests: tuple[str, str]
    how: Literal["repeated"]
    #: Where it shows: releases, or documents of results.
    where: list[str]


class OpposingPair(TypedDict):
    """Two tests of which every change passes exactly one."""

    tests: tuple[str, str]
    #: What shows it: one input and what is made of it, or releases under which they pass in turn.
    how: Literal["input", "releases"]
    #: Where it shows: releases, or documents of results.
    where: list[str]
    #: Null where no suite states it.
    known: KnownOpposition | None


class StaleOpposition(KnownOpposition):
    """A pair that a suite states and that does not oppose each other."""

    tests: tuple[str, str]


class Opposing(TypedDict):
    """Pairs of IR tests that cannot both pass (`matrix opposing --format json`)."""

    schema: Literal["mlir-matrix/opposing/v1"]
    #: How many IR tests were looked at.
    tests: int
    where: list[str]
    opposing: list[OpposingPair]
    repeated: list[RepeatedPair]
    stale: list[StaleOpposition]
