"""Types of the census of a compared output: its worst elements and totals.

It is part of the documents of ``matrix run`` and ``matrix compare``, and written by ``actions/numerics/census.py``. Within a
version, keys may be added; none is removed or changes its meaning.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.catalog.models.base import Dtype

#: A number, also one that JSON cannot represent.
Number = float | Literal["nan", "inf", "-inf"]


class ElementError(TypedDict):
    """The error of one element."""

    index: list[int]
    abs: Number
    """Absolute error."""
    rel: Number
    """Relative error."""
    ulp: Number
    """The distance in units of the last place: numbers of the dtype from one to the other."""
    bound: Number
    """The largest accepted absolute error."""
    used: Number
    """The error as a share of the bound."""
    wrong: bool


class Element(ElementError):
    """One element of an output, compared."""

    expected: Number | bool
    actual: Number | bool


class Sketched(TypedDict):
    """The comparison with a golden that is a sketch."""

    blocks: int
    """Blocks of 4096 elements; the last one may be smaller."""
    wrong_blocks: int
    samples: int
    """Sample elements, compared one by one."""
    seen_alone: Number
    """A single wrong element is detected if its error exceeds this."""
    missed_alone: float
    """The largest probability that such an element is missed."""
    missed_twice_that: float
    """The same for errors in a whole block, with 16 times the norm of their bounds."""
    false_alarm: float
    """The largest probability that a correct output is refused."""


class Measured(TypedDict, total=False):
    """Measurements of one output."""

    shape: list[int] | None
    atol: Number | None
    rtol: Number | None
    measurable: bool | None
    """False if its golden or its bounds are wrong, so that no comparison is possible."""
    atol_text: str | None
    """The bounds as they are written in the layer."""
    rtol_text: str | None
    ulp_bound: Number | None
    """The bound in units of the last place, if the layer has one."""
    ulp_bound_text: str | None
    layer: str | None
    """File, line and column of the tolerance layer that gives the bounds."""
    rationale: str | None
    derived: bool | None
    """True if each element has a bound of its own, by error analysis; ``atol`` and ``rtol`` are for those without one."""
    elements: int | None
    wrong: int | None
    wrong_percent: float | None
    over_bound: int | None
    own_bounds: bool | None
    """True if elements have bounds of their own; what is said of `atol` and `rtol` then decides nothing."""
    nan_mismatches: int | None
    inf_mismatches: int | None
    max_abs: Number | None
    max_rel: Number | None
    max_ulp: Number | None
    error_used: Number | None
    """The largest error as a share of its bound."""
    atol_needed: Number | None
    """The smallest atol under which it passes, with the same rtol."""
    rtol_needed: Number | None
    """The smallest rtol under which it passes, with the same atol."""
    ulp_needed: Number | None
    """The smallest bound in units of the last place under which it passes."""
    over_atol: int | None
    """Elements over atol alone; likewise for the other bounds. An element is wrong if it is over all of its bounds."""
    over_rtol: int | None
    over_ulp: int | None
    nan_expected: int | None
    """Number of expected NaN."""
    norms: dict[str, dict[str, Number]] | None
    """L1, L2 and maximum norm of the error, absolute and relative to the expected values."""
    cosine: Number | None
    abs_decades: list[tuple[Number, int]] | None
    """Number of elements by decade of their absolute error."""
    rel_decades_over_atol: list[tuple[Number, int]] | None
    """Elements over atol by decade of their relative error; likewise over rtol, of their absolute error."""
    abs_decades_over_rtol: list[tuple[Number, int]] | None
    character: str | None
    """Whether few elements are wrong or all drift, in words; ``looks``: a known wrong output that it resembles."""
    looks: str | None
    where: str | None
    """The location of wrong elements, in words."""
    weak: list[str] | None
    """Of a pass: the trivial outputs, which need no program, that would also pass; of a sketch only constants."""
    weak_reason: str | None
    """The reason that the workload states for it."""
    sketch: Sketched | None
    """Present if the golden is a sketch; ``wrong`` is then the number of wrong blocks."""


class Census(Measured):
    """One output, compared with its golden. An output that could not be compared has a reason and no numbers."""

    name: str
    outcome: Literal["pass", "mismatch", "infra-error"]
    reason: str
    dtype: NotRequired[Dtype | None]
    compare: NotRequired[Literal["numeric", "exact", "order-free"] | None]
    worst: NotRequired[list[Element] | None]
    """The worst elements, the worst first."""


class Verdict(TypedDict):
    """The verdict of the judge, output by output; of a property, the comparison of runs or IR."""

    outcome: Literal["pass", "mismatch", "infra-error"]
    """``infra-error``: a golden or a bound is unusable, and nothing else is wrong."""
    reason: str
    outputs: list[Census]
    metrics: dict[str, Number]
    diagnostics: NotRequired[str | None]
    """The differences of IR that should be the same."""
