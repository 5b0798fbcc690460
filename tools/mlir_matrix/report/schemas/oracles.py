"""Types of the document of ``matrix explain --oracles``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.report.schemas.verdict import Number

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


class Pair(TypedDict):
    """Two witnesses of one output. They may differ by the tolerances of both: each may be that far from the truth."""

    one: str
    other: str
    differ: int
    """Number of elements out of tolerance; `other` is taken as the expected one."""
    max_abs: Number
    """The largest difference."""


class DisputedElement(TypedDict):
    """An element on which witnesses differ."""

    index: list[int]
    values: dict[str, Number | bool | str]
    """By witness; complex numbers are texts."""


class ComparedOutput(TypedDict):
    """One output of the workload."""

    name: str
    dtype: str
    shape: list[int]
    compare: str
    atol: Number
    """Of the test."""
    rtol: Number
    own_bounds: bool
    """Whether elements have bounds of their own; `atol` and `rtol` are then those of elements without."""
    pairs: list[Pair]
    elements: list[DisputedElement]
    """At most 5, the largest differences first; of an order-free output after sorting."""


class OraclesSummary(TypedDict):
    """How many oracles agree, in all outputs."""

    oracles: int
    """Those with outputs."""
    with_test: int
    with_reference: int


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
