"""What ``matrix compare --format json`` prints; its JSON Schema is made from this."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mlir_matrix.report.schemas.verdict import Census, Element, Part


class PlacedElement(Element):
    """One element, compared; of a text one of its numbers, with where it stands."""

    actual: float | bool | str  # type: ignore[assignment]
    expected: float | bool | str  # type: ignore[assignment]
    line: int | None = None
    column: int | None = None


class Compared(Census):
    """A pair of arrays or texts. What could not be compared has a reason and no numbers."""

    #: Empty where two files of one array were given; else the file's path, the array's name, or both with a colon between.
    name: str
    #: MLIR's name of the type of the elements.
    dtype: str | None = None  # type: ignore[assignment]
    #: `text` where texts differ beside their numbers, or have none.
    compare: Literal["numeric", "exact", "text"] | None = None  # type: ignore[assignment]
    outcome: Literal["pass", "mismatch", "unreadable"]  # type: ignore[assignment]
    worst: list[PlacedElement] | None = None  # type: ignore[assignment]
    #: True where what is expected is in double, whatever the dtype.
    golden: bool | None = None
    #: What did it: compiled code, or NumPy.
    engine: Literal["native", "numpy"] | None = None
    #: Of texts: tokens that are no numbers, and numbers.
    words: int | None = None
    numbers: int | None = None


class ComparisonSummary(Part):
    """Totals."""

    total: int
    # The key is a word of Python's.
    passed: Annotated[int, Field(alias="pass")]
    mismatch: int
    unreadable: int


class Comparisons(Part):
    """What files or folders came to, pair by pair (`matrix compare --format json`)."""

    version: Annotated[Literal["mlir-matrix/comparison/v1"], Field(alias="schema")]
    comparisons: list[Compared]
    summary: ComparisonSummary
