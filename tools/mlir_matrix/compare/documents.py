"""Types of the document of ``matrix compare`` and of verdicts."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document
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

    expected: Number | bool | str
    """Complex numbers are texts."""
    actual: Number | bool | str


class Sketched(TypedDict):
    """The comparison with a golden that is a sketch."""

    blocks: int
    """Blocks of 4096 elements; the last one may be smaller."""
    wrong_blocks: int
    samples: int
    """The comparison of the sample elements."""
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
    """True if each element has its own bound, from error analysis; ``atol`` and ``rtol`` are for elements without one."""
    elements: int | None
    wrong: int | None
    wrong_percent: float | None
    wrong_by_layer: int | None
    """Wrong elements without a finite bound of their own, so that ``atol`` and ``rtol`` decide; null for none."""
    over_bound: int | None
    own_bounds: bool | None
    """True if elements have their own bounds; then `atol` and `rtol` decide nothing."""
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
    """Whether few elements are wrong or all drift, in words. ``looks``: a known wrong output that it resembles."""
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
    """The differences of IR that should be equal."""


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
    """Whether elements have their own bounds; then `atol` and `rtol` are those of elements without one."""
    pairs: list[Pair]
    elements: list[DisputedElement]
    """At most 5, the largest differences first; of an order-free output after sorting."""


class PlacedElement(ElementError):
    """One element, compared; in a text a number, with its position."""

    actual: float | bool | str
    expected: float | bool | str
    line: NotRequired[int]
    column: NotRequired[int]


class Compared(Measured):
    """A pair of arrays or texts. A pair that could not be compared has a reason and no numbers."""

    name: str
    """The file's path, the array's name, or both with a colon between; empty for two files of one array."""
    dtype: NotRequired[str]
    """MLIR's name of the element type."""
    compare: NotRequired[Literal["numeric", "exact", "text"]]
    """`text` if texts differ apart from their numbers, or have none."""
    outcome: Literal["pass", "mismatch", "unreadable"]
    reason: str
    worst: NotRequired[list[PlacedElement]]
    golden: NotRequired[bool]
    """True if the expected values are float64, whatever the dtype."""
    engine: NotRequired[Literal["native", "numpy"]]
    """The implementation: compiled code, or NumPy."""
    words: NotRequired[int]
    """For texts: the number of tokens that are not numbers."""
    numbers: NotRequired[int]


#: Its key is a keyword of Python.
_Passed = TypedDict("_Passed", {"pass": int})


class ComparisonSummary(_Passed):
    """Totals."""

    total: int
    mismatch: int
    unreadable: int


@document
class Comparisons(TypedDict):
    """The comparison of two files or folders, pair by pair (`matrix compare --format json`)."""

    schema: Literal["mlir-matrix/comparison/v1"]
    comparisons: list[Compared]
    summary: ComparisonSummary
