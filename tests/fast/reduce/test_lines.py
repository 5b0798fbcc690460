"""Texts that are no module are reduced by lines."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.reduce.lines import Lines, reduce_lines


class Containing:
    """Finds texts that still have some lines, and counts what it tests."""

    def __init__(self, needed: set[str]) -> None:
        self.needed = needed
        self.tested = 0

    def first_text(self, candidates: Iterable[Lines]) -> Lines | None:
        for each in candidates:
            self.tested += 1
            if self.needed <= set(each.text.splitlines()):
                return each
        return None


@given(st.integers(1, 200), st.sets(st.integers(0, 199), min_size=1, max_size=4))
def test_only_the_lines_stay_that_the_failure_needs(count: int, chosen: set[int]) -> None:
    needed = {str(number % count) for number in chosen}
    tester = Containing(needed)
    found = reduce_lines("".join(f"{number}\n" for number in range(count)), tester.first_text)
    assert set(found.text.splitlines()) == needed
    assert tester.tested <= 40 + 12 * count
