"""Types of the document of ``matrix compare``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.report.schemas.verdict import ElementError, Measured


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
    """Of texts: the number of tokens that are no numbers."""
    numbers: NotRequired[int]


#: Its key is a keyword of Python.
_Passed = TypedDict("_Passed", {"pass": int})


class ComparisonSummary(_Passed):
    """Totals."""

    total: int
    mismatch: int
    unreadable: int


class Comparisons(TypedDict):
    """The comparison of two files or folders, pair by pair (`matrix compare --format json`)."""

    schema: Literal["mlir-matrix/comparison/v1"]
    comparisons: list[Compared]
    summary: ComparisonSummary
