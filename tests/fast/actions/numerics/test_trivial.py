"""Trivial outputs: exactly those are named that a whole comparison would let pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import CensusCounter
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.trivial import MEAN, ONES, ZEROS, passing, passing_sketch
from mlir_matrix.actions.tools import sketch

SIZE = 3000


def right(stored: Any, expected: Any, dtype: str, criteria: Criteria) -> bool:
    census = CensusCounter(expected.shape, dtype, criteria=criteria)
    census.add(stored, expected)
    return not census.wrong


@settings(max_examples=30)
@given(
    dtype=st.sampled_from(["f32", "bf16", "i32", "bool"]),
    centre=st.sampled_from([0.0, 1.0, 3.0]),
    odd=st.sampled_from([None, 0, 700, SIZE - 1]),
    atol=st.sampled_from([0.0, 0.25]),
    max_ulp=st.sampled_from([None, 4.0]),
)
def test_what_is_named_is_what_passes(
    dtype: str, centre: float, odd: int | None, atol: float, max_ulp: float | None
) -> None:
    """One element decides, wherever it stands."""
    values = np.full(SIZE, centre)
    if odd is not None:
        values[odd] += 1.0
    expected = dtypes.decode(dtypes.encode(np.minimum(values, 1.0) if dtype == "bool" else values, dtype), dtype)
    criteria = Criteria(atol=atol, max_ulp=max_ulp)
    made = {ZEROS: np.zeros(SIZE), ONES: np.ones(SIZE), MEAN: np.full(SIZE, expected.mean())}
    stored = {name: dtypes.encode(array, dtype) for name, array in made.items()} | {
        "same": dtypes.encode(expected.astype(np.float64), dtype)
    }
    wanted = [name for name, array in stored.items() if right(array, expected, dtype, criteria)]
    found = passing(expected, dtype, criteria, {"same": stored["same"]})
    # Where the mean is 0 or 1 it is not named a second time.
    if any(np.array_equal(stored[MEAN], stored[name]) for name in (ZEROS, ONES)):
        wanted = [name for name in wanted if name != MEAN]
    assert found == wanted


def test_only_what_is_like_the_output_is_compared() -> None:
    expected = np.zeros((2, 3))
    others = {"row": np.zeros(3, "<f4"), "whole": np.zeros((2, 3), "<i4"), "right": np.zeros((2, 3), "<f4")}
    assert passing(expected, "f32", Criteria(), others) == [ZEROS, "right"]


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_no_constant_passes_where_something_special_is_expected(special: float) -> None:
    expected = np.zeros(SIZE)
    expected[SIZE // 2] = special
    loose = Criteria(atol=1e30)
    assert passing(expected, "f32", loose, {}) == []
    assert passing_sketch(sketch.sketch(expected, "f32", "numeric"), "f32", loose) == []


def test_one_element_is_its_own_mean_and_a_constant_is_weak() -> None:
    assert passing(np.array(3.5), "f32", Criteria(), {}) == []
    assert passing(np.full(4, 3.5), "f32", Criteria(), {}) == [MEAN]


@pytest.mark.parametrize("dtype", ["f32", "i32", "i64", "bool"])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
@pytest.mark.parametrize("odd", [None, 1.0])
def test_a_sketch_tells_of_constants(dtype: str, value: float, odd: float | None) -> None:
    """One odd element of 9000 is none of those that are kept, but the largest of its block, or nothing is known of it."""
    values = np.full(9000, float(value != 0) if dtype == "bool" else value)
    if odd is not None:
        values[4567] = -values[4567] * 2 + odd
    expected = values.astype(dtypes.golden_storage(dtype))
    found = passing_sketch(sketch.sketch(expected, dtype, "exact"), dtype, Criteria())
    whole = passing(expected, dtype, Criteria(), {})
    assert found == whole or (found and not whole and abs(float(expected[4567])) <= abs(value))


def test_whole_numbers_that_a_sketch_does_not_hold_are_not_spoken_of() -> None:
    expected = np.full(9000, 2**60 + 1, dtype=np.int64)
    assert passing_sketch(sketch.sketch(expected, "i64", "exact"), "i64", Criteria()) == []
