"""What documents say of outputs that were compared: the census, element by element and in sums.

Part of the results of ``matrix run`` and of what ``matrix compare`` prints; described here, written by
``actions/numerics/census.py`` and its siblings. Within a version keys may join, and none leaves or changes its meaning.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.catalog.models.base import Dtype

#: A number, or what JSON has no number for.
Number = float | Literal["nan", "inf", "-inf"]


class ElementError(TypedDict):
    """The error of one element."""

    index: list[int]
    abs: Number
    """Absolute error."""
    rel: Number
    """Relative error."""
    ulp: Number
    """How many numbers of the dtype lie between the two, one of them included."""
    bound: Number
    """The largest absolute error that is right."""
    used: Number
    """The share of the bound that the error takes."""
    wrong: bool


class Element(ElementError):
    """One element of an output, compared."""

    expected: Number | bool
    actual: Number | bool


class Sketched(TypedDict):
    """What an output was compared with that is kept as a sketch, and what that tells."""

    blocks: int
    """Of 4096 elements each, the last of what is left."""
    wrong_blocks: int
    samples: int
    """Elements that are kept, and were compared one by one."""
    seen_alone: Number
    """One wrong element among right ones is seen in any block where it is off by more than this."""
    missed_alone: float
    """The most likely that such a one is not."""
    missed_twice_that: float
    """The same for errors all over a block whose norm is 16 times that of their bounds."""
    false_alarm: float
    """The most likely that an output is refused that is right."""


class Measured(TypedDict, total=False):
    """What was measured of one output."""

    shape: list[int] | None
    atol: Number | None
    rtol: Number | None
    measurable: bool | None
    """False where its golden or its bounds are wrong, so that nothing could be compared."""
    atol_text: str | None
    """The bounds as they are written in the layer."""
    rtol_text: str | None
    ulp_bound: Number | None
    """How many numbers of the dtype may lie between instead, where that is a criterion."""
    ulp_bound_text: str | None
    layer: str | None
    """File, line and column of the tolerance layer that gives the bounds."""
    rationale: str | None
    elements: int | None
    wrong: int | None
    wrong_percent: float | None
    over_bound: int | None
    nan_mismatches: int | None
    inf_mismatches: int | None
    max_abs: Number | None
    max_rel: Number | None
    max_ulp: Number | None
    error_used: Number | None
    """The largest share of its bound that an error takes."""
    atol_needed: Number | None
    """The least atol that would do, with the rtol as it is."""
    rtol_needed: Number | None
    """The least rtol that would do, with the atol as it is."""
    ulp_needed: Number | None
    """The least number of last places that would do."""
    over_atol: int | None
    """How many are over each bound alone; an element is wrong where it is over all that count."""
    over_rtol: int | None
    over_ulp: int | None
    nan_expected: int | None
    """Elements where NaN is expected."""
    norms: dict[str, dict[str, Number]] | None
    """L1, L2 and largest of the error, absolute and by that of what is expected."""
    cosine: Number | None
    abs_decades: list[tuple[Number, int]] | None
    """Elements by the decade of their absolute error."""
    rel_decades_over_atol: list[tuple[Number, int]] | None
    """Elements over atol by the decade of their relative error, and those over rtol by that of their absolute error."""
    abs_decades_over_rtol: list[tuple[Number, int]] | None
    character: str | None
    """Few wrong elements, or a drift of all, in words; what the output looks like, where it looks like something."""
    looks: str | None
    where: str | None
    """Where the wrong ones are, in words."""
    weak: list[str] | None
    """Of a pass: the trivial outputs, which no program is needed for, that would pass, too; of a sketch constants alone."""
    weak_reason: str | None
    """Why that is right, as the workload says."""
    sketch: Sketched | None
    """Where the golden is a sketch. ``wrong`` is then the number of blocks that are not like it."""


class Census(Measured):
    """One output, compared with its golden. What could not be compared has a reason and no numbers."""

    name: str
    outcome: Literal["pass", "mismatch"]
    reason: str
    dtype: NotRequired[Dtype | None]
    compare: NotRequired[Literal["numeric", "exact", "order-free"] | None]
    worst: NotRequired[list[Element] | None]
    """The worst elements, the worst of all first."""


class Verdict(TypedDict):
    """What the judge found, output by output; of a property, what runs or IR gave against others."""

    outcome: Literal["pass", "mismatch"]
    reason: str
    outputs: list[Census]
    metrics: dict[str, Number]
    diagnostics: NotRequired[str | None]
    """How IR differs that should be the same."""
