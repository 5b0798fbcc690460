"""The census against a count by hand, element by element, in Python's own arithmetic."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import CensusCounter
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.error_stats import locate

INF, NAN = math.inf, math.nan
SPECIAL = st.sampled_from([0.0, -0.0, INF, -INF, NAN, 1.0, 2.0**-149, 2.0**127, -(2.0**-100)])
VALUES = st.one_of(SPECIAL, st.floats(-10, 10, width=32))
BOUNDS = st.sampled_from([0.0, 1e-6, 0.25, 1.0])


def census(actual: Any, expected: Any, dtype: str = "f32", *, atol: float = 0.0, rtol: float = 0.0) -> dict[str, Any]:
    right = np.asarray(expected, dtype=dtypes.golden_storage(dtype))
    counted = CensusCounter(right.shape, dtype, criteria=Criteria(atol=atol, rtol=rtol))
    counted.add(np.asarray(actual, dtype=dtypes.STORAGE[dtype]), right)
    result = counted.result()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    return result


def is_wrong(a: float, e: float, atol: float, rtol: float) -> bool:
    if math.isnan(e) or math.isnan(a):
        return math.isnan(e) != math.isnan(a)
    if math.isinf(e) or math.isinf(a):
        return a != e
    return not abs(a - e) <= atol + rtol * abs(e)


@given(
    pairs=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=40), same=st.lists(VALUES), atol=BOUNDS, rtol=BOUNDS
)
def test_counts_agree_with_a_count_by_hand(
    pairs: list[tuple[float, float]], same: list[float], atol: float, rtol: float
) -> None:
    pairs = pairs + [(value, value) for value in same]
    found = census([a for a, _ in pairs], [e for _, e in pairs], atol=atol, rtol=rtol)
    wrong = [(a, e) for a, e in pairs if is_wrong(a, e, atol, rtol)]
    nan = sum(math.isnan(a) or math.isnan(e) for a, e in wrong)
    inf = sum((math.isinf(a) or math.isinf(e)) and not (math.isnan(a) or math.isnan(e)) for a, e in wrong)
    finite = [(a, e) for a, e in pairs if math.isfinite(a) and math.isfinite(e)]
    assert (found["elements"], found["wrong"]) == (len(pairs), len(wrong))
    assert (found["nan_mismatches"], found["inf_mismatches"]) == (nan, inf)
    assert found["over_bound"] == len(wrong) - nan - inf
    assert found["max_abs"] == max((abs(a - e) for a, e in finite), default=0.0)
    assert sum(count for _, count in found["abs_decades"]) == len(pairs) - nan - inf
    over_atol = sum(abs(a - e) > atol for a, e in finite)
    over_rtol = sum(abs(a - e) > rtol * abs(e) for a, e in finite)
    assert (found["over_atol"], found["over_rtol"]) == (over_atol, over_rtol)
    assert sum(count for _, count in found["rel_decades_over_atol"]) == over_atol
    assert sum(count for _, count in found["abs_decades_over_rtol"]) == over_rtol
    assert found["wrong_percent"] == round(100 * len(wrong) / len(pairs), 4)
    assert sum(element["wrong"] for element in found["worst"]) == min(5, len(wrong))
    assert (float(found["error_used"]) > 1) <= bool(wrong)


@given(
    pairs=st.lists(st.tuples(st.floats(-10, 10, width=32), st.floats(-10, 10)), min_size=1, max_size=20),
    atol=BOUNDS,
    rtol=BOUNDS,
)
def test_the_bounds_that_are_needed_pass_and_less_fails(
    pairs: list[tuple[float, float]], atol: float, rtol: float
) -> None:
    actual, expected = [a for a, _ in pairs], [e for _, e in pairs]
    needed = census(actual, expected, atol=atol, rtol=rtol)
    assert census(actual, expected, atol=needed["atol_needed"], rtol=rtol)["wrong"] == 0
    if needed["atol_needed"] > 1e-12:
        assert census(actual, expected, atol=needed["atol_needed"] * (1 - 1e-3), rtol=rtol)["wrong"] > 0
    if needed["rtol_needed"] == "inf":
        assert any(abs(e) < 1e-300 and abs(a) > atol for a, e in pairs)
        return
    assert census(actual, expected, atol=atol, rtol=needed["rtol_needed"])["wrong"] == 0
    if needed["rtol_needed"] > 1e-12:
        assert census(actual, expected, atol=atol, rtol=needed["rtol_needed"] * (1 - 1e-3))["wrong"] > 0


@given(data=st.data(), dtype=st.sampled_from(["f32", "f16", "bf16", "f64"]))
def test_units_in_the_last_place_count_the_numbers_between(data: st.DataObject, dtype: str) -> None:
    words = st.integers(0, {"f16": 0x7BFF, "bf16": 0x7F7F, "f32": 0x7F7FFFFF, "f64": 2**62}[dtype])
    width = dtypes.STORAGE[dtype].itemsize
    unsigned, sign = np.dtype(f"<u{width}"), 1 << (8 * width - 1)
    left, right = data.draw(words), data.draw(words)
    negative_left, negative_right = data.draw(st.booleans()), data.draw(st.booleans())
    actual = np.array([left | (sign if negative_left else 0)], dtype=unsigned).view(dtypes.STORAGE[dtype])
    golden = np.array([right | (sign if negative_right else 0)], dtype=unsigned).view(dtypes.STORAGE[dtype])
    distance = left + right if negative_left != negative_right else abs(left - right)
    assert census(actual, dtypes.decode(golden, dtype), dtype)["max_ulp"] == float(distance)


def test_integers_are_compared_without_rounding_or_wrapping() -> None:
    least, most = -(2**63), 2**63 - 1
    found = census([least, most, most, 0], [most, most, most - 1, 0], "i64")
    assert (found["wrong"], found["max_abs"]) == (2, 2.0**64)
    assert found["worst"][0] == {
        "index": [0], "expected": most, "actual": least, "abs": 2.0**64, "rel": 2.0, "ulp": 2.0**64, "bound": 0.0, "used": "inf",
        "wrong": True,
    }  # fmt: skip
    assert census([0, 255], [255, 255], "u8", atol=254)["wrong"] == 1
    assert census([True, False], [True, True], "bool")["wrong"] == 1


def test_the_worst_come_first_and_those_that_are_not_numbers_before_all() -> None:
    expected = [1.0] * 10
    actual = [1, 3, 1.5, NAN, 1, -7, INF, 1.25, 1, 2]
    found = census(actual, expected, atol=0.5)
    assert [element["index"] for element in found["worst"]] == [[3], [6], [5], [1], [9]]
    assert found["worst"][0] | {"bound": 0} == {
        "index": [3], "expected": 1.0, "actual": "nan", "abs": "nan", "rel": "nan", "ulp": "nan", "bound": 0, "used": "inf",
        "wrong": True,
    }  # fmt: skip
    assert found["worst"][2] == {
        "index": [5], "expected": 1.0, "actual": -7.0, "abs": 8.0, "rel": 8.0, "ulp": 0x3F800000 + 0x40E00000,
        "bound": 0.5, "used": 16.0, "wrong": True,
    }  # fmt: skip
    assert (found["atol_needed"], found["rtol_needed"]) == ("inf", "inf")


def test_a_bound_is_no_bound_for_infinities() -> None:
    found = census([1.0, INF, -INF, INF], [INF, INF, INF, 1.0], rtol=1.0, atol=INF)
    assert (found["wrong"], found["inf_mismatches"]) == (3, 3)


def test_no_relative_bound_is_a_bound_for_infinities_too() -> None:
    """Nothing times infinity would be no number, and be shown as the bound."""
    (worst,) = census([1.0], [INF], atol=0.5)["worst"]
    assert worst["bound"] == 0.5


def test_histograms_by_decade() -> None:
    found = census([1.0, 1.5, 1.05, 3.0, 21.0], [1.0] * 5, atol=1.0)
    assert found["abs_decades"] == [[0.0, 1], [1e-2, 1], [1e-1, 1], [1.0, 1], [10.0, 1]]
    assert found["rel_decades_over_atol"] == [[1.0, 1], [10.0, 1]]
    assert found["abs_decades_over_rtol"] == [[1e-2, 1], [1e-1, 1], [1.0, 1], [10.0, 1]]


def test_many_blocks_are_one_census() -> None:
    rng = np.random.default_rng(1)
    expected = rng.normal(size=(100_003, 2))
    actual = expected.astype(np.float32)
    actual[77_777, 1] += 1
    actual[5, 0] += 2
    found = census(actual, expected, atol=1e-6)
    assert (found["elements"], found["wrong"]) == (200_006, 2)
    assert [element["index"] for element in found["worst"][:2]] == [[5, 0], [77_777, 1]]
    assert found["max_abs"] == abs(float(actual[5, 0]) - expected[5, 0])


def test_ulp_is_a_criterion_of_its_own() -> None:
    one = np.float32(1)
    near, far = np.nextafter(one, np.float32(2)), np.float32(1 + 2.0**-20)
    bounds = Criteria(max_ulp=1)
    found = with_criteria([near, far, 1, 0], [1, 1, 1, 1e-3], bounds)
    assert (found["wrong"], found["over_ulp"], found["ulp_needed"]) == (2, 2, float(0x3A83126F))
    # One bound that holds is enough.
    found = with_criteria([near, far, 1, 0], [1, 1, 1, 1e-3], Criteria(max_ulp=1, atol=2e-3))
    assert (found["wrong"], found["over_atol"], found["over_ulp"]) == (0, 0, 2)
    assert found["error_used"] == pytest.approx(0.5)


def with_criteria(actual: Any, expected: Any, criteria: Criteria, dtype: str = "f32") -> dict[str, Any]:
    right = np.asarray(expected, dtype=dtypes.golden_storage(dtype))
    counted = CensusCounter(right.shape, dtype, criteria=criteria)
    counted.add(np.asarray(actual, dtype=dtypes.STORAGE[dtype]), right)
    return counted.result()


def test_policies() -> None:
    tiny = 2.0**-140
    both = ([NAN, INF, 0.0, tiny, -tiny], [NAN, INF, -0.0, 0.0, tiny])
    assert with_criteria(*both, Criteria(max_ulp=0))["wrong"] == 2
    assert with_criteria(*both, Criteria(subnormals="flush"))["wrong"] == 0
    assert with_criteria(*both, Criteria(nan="refuse", subnormals="flush"))["nan_mismatches"] == 1
    assert with_criteria(*both, Criteria(inf="refuse", subnormals="flush"))["inf_mismatches"] == 1
    zeros = with_criteria(*both, Criteria(zeros="distinct", atol=1.0, max_ulp=9))
    assert (zeros["wrong"], zeros["atol_needed"], zeros["nan_mismatches"], zeros["inf_mismatches"]) == (1, "inf", 0, 0)
    # A subnormal keeps its sign when it is flushed.
    assert with_criteria(*both, Criteria(zeros="distinct", subnormals="flush"))["wrong"] == 2


@pytest.mark.parametrize("name", ["atol", "rtol", "max_ulp"])
@pytest.mark.parametrize("value", [-1.0, NAN])
def test_what_is_no_bound_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Criteria(**{name: value})


def test_complex_numbers_are_measured_in_the_plane() -> None:
    found = with_criteria([3 + 4j, 1 + 1j], [0j, 1 + 1j], Criteria(atol=4.9), "c64")
    assert (found["wrong"], found["max_abs"]) == (1, 5.0)
    assert found["worst"][0]["actual"] == "3.0+4.0j"
    assert with_criteria([3 + 4j, 1 + 1j], [0j, 1 + 1j], Criteria(atol=5.0), "c64")["wrong"] == 0
    assert with_criteria([complex(NAN, 0)], [complex(0, 0)], Criteria(atol=9), "c128")["nan_mismatches"] == 1
    assert with_criteria([complex(INF, 0)], [complex(INF, 1)], Criteria(atol=0.5), "c128")["inf_mismatches"] == 1


def test_norms_and_the_cosine() -> None:
    found = census([3.0, 4.0, 0.0], [3.0, 4.0, 12.0])
    assert found["norms"]["l1"] == {"abs": 12.0, "rel": pytest.approx(12 / 19)}
    assert found["norms"]["l2"] == {"abs": 12.0, "rel": pytest.approx(12 / 13)}
    assert found["norms"]["max"] == {"abs": 12.0, "rel": 1.0}
    assert found["cosine"] == pytest.approx(5 / 13)
    assert census([0.0, 0.0], [0.0, 0.0])["norms"]["l2"]["rel"] == 0


RNG = np.random.default_rng(3)
NOISE = RNG.normal(size=400)


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (NOISE * (1 + 1e-3), "all scaled: actual is 1.001"),
        (NOISE * 0.125, "all scaled: actual is 0.125 times"),
        (np.full_like(NOISE, 0.01), ""),
        (NOISE + 1e-3, "all shifted: actual is expected + 0.001"),
        (
            NOISE - np.abs(RNG.normal(size=400)) * 1e-3,
            "a drift: 100 % of the errors have one sign, actual is too small",
        ),
        (NOISE + RNG.normal(size=400) * 1e-3, ""),
        (np.where(np.arange(400) == 7, 5, NOISE), "few wrong elements: the other 399"),
    ],
)
def test_the_kind_of_error(actual: Any, words: str) -> None:
    assert census(actual, NOISE, atol=1e-6)["character"].startswith(words)
    assert bool(census(actual, NOISE, atol=1e-6)["character"]) == bool(words)


@pytest.mark.parametrize(
    ("places", "hint"),
    [
        ([(3, 4)], "one element"),
        ([(row, 9) for row in range(8)], "only index 9 along axis 1 of 10, the last, all of it"),
        ([(row, 9) for row in range(7)], "only index 9 along axis 1 of 10, the last"),
        ([(2, column) for column in range(10)], "only index 2 along axis 0, all of it"),
        (
            [(row, column) for row in range(8) for column in range(7, 10)],
            "only indices >= 7 along axis 1 of 10",
        ),
        ([(row, column) for row in range(8) for column in (2, 3, 4)], "only indices 2 to 4 along axis 1 of 10"),
        ([(row, column) for row in range(8) for column in (1, 5, 9)], "only every 4th index along axis 1, from 1"),
        ([(row, column) for row in range(8) for column in (0, 1)], "only indices < 2 along axis 1 of 10"),
        ([(row, row) for row in range(8)], "scattered"),
        ([(row, column) for row in range(8) for column in range(10)], "every element"),
        ([(row, column) for row in range(8) for column in range(10) if row + column], "nearly everywhere"),
        (
            [(7, 8), (7, 9)],
            "only index 7 along axis 0 of 8, the last, and indices >= 8 along axis 1 of 10: a remainder, after tiles of 8",
        ),
    ],
)
def test_where(places: list[tuple[int, int]], hint: str) -> None:
    axes = [np.zeros(8, dtype=np.int64), np.zeros(10, dtype=np.int64)]
    for place in places:
        for axis, index in zip(axes, place, strict=True):
            axis[index] += 1
    assert locate(axes, len(places), 80).startswith(hint)
