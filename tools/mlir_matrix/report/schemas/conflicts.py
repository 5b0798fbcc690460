"""What ``matrix opposing --format json`` prints; its JSON Schema is made from this."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mlir_matrix.report.schemas.verdict import Part


class KnownOpposition(Part):
    """What a suite says of a pair."""

    reason: str
    position: str


class RepeatedPair(Part):
    """Two tests that could be one."""

    tests: tuple[str, str]
    how: Literal["repeated"]
    #: Where it shows: releases, or documents of results.
    where: list[str]


class OpposingPair(Part):
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


class Opposing(Part):
    """Pairs of IR tests that cannot both pass (`matrix opposing --format json`)."""

    version: Annotated[Literal["mlir-matrix/opposing/v1"], Field(alias="schema")]
    #: How many IR tests were looked at.
    tests: int
    where: list[str]
    opposing: list[OpposingPair]
    repeated: list[RepeatedPair]
    stale: list[StaleOpposition]
