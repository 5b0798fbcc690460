"""What a comparison came to: true where it passed, with the numbers, and as text, JSON or a picture for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlir_matrix.report.census_text import render


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """The result for one pair of arrays. In a condition it is true where they agree.

    ``record`` holds everything: ``outcome`` (``pass`` or ``mismatch``), ``reason`` and, where elements could be compared, the
    census; its keys are those of an output's verdict in the results of ``matrix run``.
    """

    record: Mapping[str, Any]
    #: What was compared, as stored; for pictures.
    actual: Any = field(default=None, compare=False)
    expected: Any = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """Whether they agree."""
        return bool(self.record["outcome"] == "pass")

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        return str(self.record["reason"])

    @property
    def wrong(self) -> int:
        """How many elements are wrong; -1 where none could be compared."""
        return int(self.record.get("wrong", -1))

    @property
    def elements(self) -> int:
        """How many elements there are."""
        count = 1
        for size in self.record["shape"]:
            count *= size
        return count

    @property
    def census(self) -> Mapping[str, Any]:
        """The same as ``record``."""
        return self.record

    def __bool__(self) -> bool:
        return self.passed

    def __getattr__(self, name: str) -> Any:
        # The census by attribute: result.max_ulp, result.where.
        if not name.startswith("_") and name in self.record:
            return self.record[name]
        raise AttributeError(f"a comparison has no {name!r}")

    def report(self) -> str:
        """The census as text, as ``matrix compare`` prints it."""
        return render({"outputs": [self.record]})

    def picture(self, path: str | Path) -> None:
        """Write a map of the error: ``.png`` or ``.svg``. Raises ValueError where there is nothing to show."""
        from mlir_matrix.compare.picture import draw  # few want one

        draw(self, Path(path))

    def __repr__(self) -> str:
        return f"<{'pass' if self.passed else 'mismatch'}: {self.reason}>"

    def __str__(self) -> str:
        return self.report()
