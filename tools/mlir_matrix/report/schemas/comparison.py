"""What ``matrix compare --format json`` prints; its JSON Schema is made from this."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mlir_matrix.report.schemas.verdict import ElementError, Measured


class PlacedElement(ElementError):
    """One element, compared; of a text one of its numbers, with where it stands."""

    actual: float | bool | str
    expected: float | bool | str
    line: NotRequired[int]
    column: NotRequired[int]


class Compared(Measured):
    """A pair of arrays or texts. What could not be compared has a reason and no numbers."""

    name: str
    """Empty where two files of one array were given; else the file's path, the array's name, or both with a colon between."""
    dtype: NotRequired[str]
    """MLIR's name of the type of the elements."""
    compare: NotRequired[Literal["numeric", "exact", "text"]]
    """`text` where texts differ beside their numbers, or have none."""
    outcome: Literal["pass", "mismatch", "unreadable"]
    reason: str
    worst: NotRequired[list[PlacedElement]]
    golden: NotRequired[bool]
    """True where what is expected is in double, whatever the dtype."""
    engine: NotRequired[Literal["native", "numpy"]]
    """What did it: compiled code, or NumPy."""
    words: NotRequired[int]
    """Of texts: tokens that are no numbers, and numbers."""
    numbers: NotRequired[int]


#: Its key is a word of Python.
_Passed = TypedDict("_Passed", {"pass": int})


class ComparisonSummary(_Passed):
    """Totals."""

    total: int
    mismatch: int
    unreadable: int


class Comparisons(TypedDict):
    """What files or folders came to, pair by pair (`matrix compare --format json`)."""

    schema: Literal["mlir-matrix/comparison/v1"]
    comparisons: list[Compared]
    summary: ComparisonSummary
