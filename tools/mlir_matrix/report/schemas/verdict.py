"""What documents say of outputs that were compared: the census, element by element and in sums.

Part of the results of ``matrix run`` and of what ``matrix compare`` prints; described here, written by ``actions/census.py`` and
its siblings. Within a version keys may join, and none leaves or changes its meaning.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from mlir_matrix.catalog.models.base import Dtype

#: A number, or what JSON has no number for.
Number = float | Literal["nan", "inf", "-inf"]


class Part(BaseModel):
    """Base of everything in a document."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Element(Part):
    """One element of an output, compared."""

    index: list[int]
    expected: Number | bool
    actual: Number | bool
    #: Absolute error.
    abs: Number
    #: Relative error.
    rel: Number
    #: How many numbers of the dtype lie between the two, one of them included.
    ulp: Number
    #: The largest absolute error that is right.
    bound: Number
    #: The share of the bound that the error takes.
    used: Number
    wrong: bool


class Sketched(Part):
    """What an output was compared with that is kept as a sketch, and what that tells."""

    #: Of 4096 elements each, the last of what is left.
    blocks: int
    wrong_blocks: int
    #: Elements that are kept, and were compared one by one.
    samples: int
    #: One wrong element among right ones is seen in any block where it is off by more than this.
    seen_alone: Number
    #: The most likely that such a one is not.
    missed_alone: float
    #: The same for errors all over a block whose norm is 16 times that of their bounds.
    missed_twice_that: float
    #: The most likely that an output is refused that is right.
    false_alarm: float


class Census(Part):
    """One output, compared with its golden. What could not be compared has a reason and no numbers."""

    name: str
    dtype: Dtype | None = None
    shape: list[int] | None = None
    compare: Literal["numeric", "exact", "order-free"] | None = None
    outcome: Literal["pass", "mismatch"]
    reason: str
    atol: Number | None = None
    rtol: Number | None = None
    #: False where its golden or its bounds are wrong, so that nothing could be compared.
    measurable: bool | None = None
    #: The bounds as they are written in the layer.
    atol_text: str | None = None
    rtol_text: str | None = None
    #: How many numbers of the dtype may lie between instead, where that is a criterion.
    ulp_bound: Number | None = None
    ulp_bound_text: str | None = None
    #: File, line and column of the tolerance layer that gives the bounds.
    layer: str | None = None
    rationale: str | None = None
    elements: int | None = None
    wrong: int | None = None
    wrong_percent: float | None = None
    over_bound: int | None = None
    nan_mismatches: int | None = None
    inf_mismatches: int | None = None
    max_abs: Number | None = None
    max_rel: Number | None = None
    max_ulp: Number | None = None
    #: The largest share of its bound that an error takes.
    error_used: Number | None = None
    #: The least atol that would do, with the rtol as it is.
    atol_needed: Number | None = None
    #: The least rtol that would do, with the atol as it is.
    rtol_needed: Number | None = None
    #: The least number of last places that would do.
    ulp_needed: Number | None = None
    #: How many are over each bound alone; an element is wrong where it is over all that count.
    over_atol: int | None = None
    over_rtol: int | None = None
    over_ulp: int | None = None
    #: Elements where NaN is expected.
    nan_expected: int | None = None
    #: L1, L2 and largest of the error, absolute and by that of what is expected.
    norms: dict[str, dict[str, Number]] | None = None
    cosine: Number | None = None
    #: Elements by the decade of their absolute error.
    abs_decades: list[tuple[Number, int]] | None = None
    #: Elements over atol by the decade of their relative error, and those over rtol by that of their absolute error.
    rel_decades_over_atol: list[tuple[Number, int]] | None = None
    abs_decades_over_rtol: list[tuple[Number, int]] | None = None
    #: The worst elements, the worst of all first.
    worst: list[Element] | None = None
    #: Few wrong elements, or a drift of all, in words; what the output looks like, where it looks like something.
    character: str | None = None
    looks: str | None = None
    #: Where the wrong ones are, in words.
    where: str | None = None
    #: Of a pass: the trivial outputs, which no program is needed for, that would pass, too; of a sketch constants alone.
    weak: list[str] | None = None
    #: Why that is right, as the workload says.
    weak_reason: str | None = None
    #: Where the golden is a sketch. ``wrong`` is then the number of blocks that are not like it.
    sketch: Sketched | None = None


class Verdict(Part):
    """What the judge found, output by output; of a property, what runs or IR gave against others."""

    outcome: Literal["pass", "mismatch"]
    reason: str
    outputs: list[Census]
    metrics: dict[str, Number]
    #: How IR differs that should be the same.
    diagnostics: str | None = None
