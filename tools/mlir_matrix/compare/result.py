"""The result of a comparison: true for a pass, with numbers, and as text, JSON or a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from mlir_matrix.actions.numerics.census import CensusCounter
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.compare.report import render


class Comparison:
    """The result for one pair of arrays. In a condition it is true where they agree.

    Whether it passed, and how many elements are over which bound, is known at once. The whole census takes NumPy some seconds for a
    hundred million bytes, and is taken on demand; until then the arrays must not change.
    """

    def __init__(
        self,
        counts: Mapping[str, Any],
        *,
        census: Callable[[], Mapping[str, Any]] | None = None,
        actual: Array | None = None,
        expected: Array | None = None,
        criteria: Criteria | None = None,
    ) -> None:
        """Hold a result. ``counts`` is the known part of the record, with ``outcome``.

        ``census`` makes the whole record; None if ``counts`` is all of it. ``criteria``: what was right, for a picture.
        """
        self._counts, self._census = counts, census
        #: What was compared, as stored, and the criteria of right elements.
        self.actual, self.expected, self.criteria = actual, expected, criteria or Criteria()

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """Return the whole record: ``outcome`` (``pass`` or ``mismatch``), ``reason`` and, of compared elements, the census.

        Its keys are those of an output's verdict in the results of ``matrix run``.
        """
        return self._counts if self._census is None else self._census()

    @property
    def passed(self) -> bool:
        """Return whether they agree."""
        return bool(self._counts["outcome"] == "pass")

    @property
    def reason(self) -> str:
        """Return the reason in one sentence."""
        return str(self.record["reason"])

    @property
    def wrong(self) -> int:
        """Return the number of wrong elements; -1 if none could be compared."""
        return int(self._counts.get("wrong", -1))

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return math.prod(self._counts.get("shape", (0,)))

    def __bool__(self) -> bool:
        return self.passed

    def __getattr__(self, name: str) -> Any:
        # The census by attribute: result.max_ulp, result.where.
        if not name.startswith("_"):
            if name in self._counts:
                return self._counts[name]
            if name in self.record:
                return self.record[name]
        if name == "looks" or name in CensusCounter((0,), "f32", criteria=Criteria()).result():
            more = "; full=True takes the census where nothing is wrong, too" if self else ""
            raise AttributeError(f"this comparison has no {name!r}: {self.reason}{more}")
        raise AttributeError(f"a comparison has no {name!r}")

    def release(self) -> None:
        """Keep what is known, the census included, and let go of the arrays: files that were mapped are closed."""
        self._counts, self._census = self.record, None
        self.actual = self.expected = None

    def report(self) -> str:
        """Return the census as text, as ``matrix compare`` prints it."""
        return render({"outputs": [self.record]})

    def picture(self, path: str | Path) -> None:
        """Write a map of the error: ``.png`` or ``.svg``. Raise ValueError if there is nothing to show."""
        from mlir_matrix.compare.error_map import draw  # few want one

        draw(Path(path), self.actual, self.expected, self.record, self.criteria)

    def __repr__(self) -> str:
        return f"<{'pass' if self.passed else 'mismatch'}: {self.reason}>"

    def __str__(self) -> str:
        return self.report()
