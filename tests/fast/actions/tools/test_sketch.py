"""Sketches: what is right passes by them, what is wrong is seen as surely as is claimed, and nothing passes unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.numerics import dtypes, prng, sketch
from mlir_matrix.actions.numerics.sketch import BLOCK, FACTOR, PROJECTIONS, SAMPLES, false_alarm, missed, missed_alone
from mlir_matrix.actions.tools import judge
from mlir_matrix.actions.tools.sketch import run

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SIZE = 3 * BLOCK + 1000
ATOL = 1e-6


def truth(seed: int = 1, size: int = SIZE) -> Any:
    return np.random.default_rng(seed).normal(0, 1, size)


def verdict(
    actual: Any,
    expected: Any,
    dtype: str = "f32",
    compare: str = "numeric",
    *,
    atol: float = ATOL,
    rtol: float = 0.0,
    **more: Any,
) -> dict[str, Any]:
    """What the judge says of a stored output, by a sketch that the tool made."""
    shape = list(actual.shape)
    spec = {
        "name": "y",
        "dtype": dtype,
        "shape": shape,
        "compare": compare,
        "atol": atol,
        "rtol": rtol,
        "layer": "l",
        **more,
    }
    dtypes.save_npy("e.npy", np.asarray(expected, dtype=dtypes.golden_storage(dtype)))
    run(Action(params={"outputs": [spec]}, inputs={"expected-y": "e.npy"}, outputs={"sketch-y": "s.npy"}))
    dtypes.save_npy("a.npy", actual)
    return judge.judge([spec], {"actual-y": "a.npy", "sketch-y": "s.npy"})


def single(values: Any) -> Any:
    return np.asarray(values, dtype=np.float32)


def test_units_in_the_last_place_are_a_bound_too() -> None:
    stored = single(truth())
    near = np.nextafter(stored, np.float32(np.inf))
    assert verdict(near, truth(), atol=0.0)["outcome"] == "mismatch"
    assert verdict(near, truth(), atol=0.0, max_ulp=2)["outcome"] == "pass"
    assert verdict(stored * np.float32(1.001), truth(), atol=0.0, max_ulp=2)["outcome"] == "mismatch"


def test_the_expected_values_rounded_pass_under_any_tolerance() -> None:
    for dtype in ("f64", "f32", "f16", "bf16"):
        stored = dtypes.rounded(truth(), dtype)
        for compare, atol in (("numeric", ATOL), ("numeric", 0.0), ("exact", 0.0)):
            found = verdict(stored, truth(), dtype, compare, atol=atol)
            assert found["outcome"] == "pass", found["reason"]
            assert found["metrics"]["elements"] == SIZE
            assert found["metrics"]["error_used"] == 0


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.1, 0.5, 0.99]))
def test_errors_within_the_bound_pass(seed: int, share: float) -> None:
    expected = truth(seed)
    errors = np.random.default_rng(seed + 1).choice([-share, share], SIZE) * (ATOL + 1e-5 * np.abs(expected))
    found = verdict(expected + errors, expected, "f64", rtol=1e-5)
    assert found["outcome"] == "pass", found["reason"]
    # The kept elements use their bounds as usual.
    assert share - 0.01 <= found["metrics"]["error_used"] <= 1.0
    assert "like the sketch in all 4 blocks" in found["outputs"][0]["reason"]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("steps", [1, 3])
def test_last_places_are_a_bound_of_sketches_too(dtype: str, steps: int) -> None:
    """Every element is the nearest number but for so many steps to the same side; small ones are subnormal."""
    expected = truth() * np.where(np.arange(SIZE) % 2, dtypes.least_normal(dtype), 1.0)
    stored = dtypes.rounded(expected, dtype)
    words = stored.view(f"<u{stored.itemsize}")
    moved = (words + words.dtype.type(steps)).view(stored.dtype)
    found = verdict(moved, expected, dtype, atol=0.0, max_ulp=steps, max_ulp_text=str(steps))
    assert found["outcome"] == "pass", found["reason"]
    less = verdict(moved, expected, dtype, atol=0.0, max_ulp=steps - 1, max_ulp_text=str(steps - 1))
    assert less["outcome"] == "mismatch"


@pytest.mark.parametrize("drift", [1.0, -1.0])
def test_all_errors_of_one_sign_pass_too(drift: float) -> None:
    assert verdict(truth() + drift * 0.99 * ATOL, truth(), "f64")["outcome"] == "pass"


@settings(max_examples=40)
@given(place=st.integers(0, SIZE - 1), sign=st.sampled_from([-1, 1]), seed=st.integers(0, 2**16))
def test_one_wrong_element_is_always_seen_from_there_on(place: int, sign: int, seed: int) -> None:
    """Among others that use up their bounds."""
    expected = truth(seed)
    count = min(BLOCK, SIZE - place // BLOCK * BLOCK)
    actual = expected + np.random.default_rng(seed + 1).choice([-ATOL, ATOL], SIZE) * 0.99
    actual[place] += sign * 1.01 * FACTOR * ATOL * np.sqrt(count)
    found = verdict(actual, expected, "f64")
    first = place // BLOCK * BLOCK
    assert found["outcome"] == "mismatch"
    assert found["outputs"][0]["wrong"] == 1
    assert f"y: 1 of 4 blocks of {BLOCK} elements are not like the sketch; elements {first} to " in found["reason"]


def test_the_reason_names_the_block_the_check_and_the_numbers() -> None:
    actual = single(truth()).reshape(4, -1)
    actual.reshape(-1)[5000] += 0.5
    found = verdict(actual, truth().reshape(4, -1))
    words = "elements 4096 to 8191 ([1, 774] to [2, 1547]): 32 of 32 projections beyond"
    assert found["reason"] == found["outputs"][0]["reason"]
    for each in (words, "as if one element were off by 0.5"):
        assert each in found["reason"]
    assert found["metrics"]["error_used"] > 500
    assert "elements" not in found["outputs"][0]


def test_kept_elements_are_compared_as_usual() -> None:
    place = int(sketch.picks(SIZE)[2, 3])
    actual = truth()
    actual[place] += 3 * ATOL
    found = verdict(actual, truth(), "f64")
    assert f"element {place}: expected {truth()[place]}, actual {actual[place]}, bound 1e-06" in found["reason"]


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_must_be_where_they_are_expected(special: float) -> None:
    expected = truth()
    expected[[5, 5000]] = special
    right = single(expected)
    assert verdict(right, expected)["outcome"] == "pass"
    missing, elsewhere, more = right.copy(), right.copy(), right.copy()
    missing[5000] = 0
    elsewhere[[5000, 5001]] = 0, special
    more[9000] = special
    kind = {"nan": "NaN", "inf": "infinite", "-inf": "minus infinite"}[str(special)]
    for actual, words in (
        (missing, f"elements 4096 to 8191 ([4096] to [8191]): 0 {kind}, expected 1"),
        (elsewhere, f"1 {kind}, as expected, but elsewhere"),
        (more, f"elements 8192 to 12287 ([8192] to [12287]): 1 {kind}, expected 0"),
    ):
        found = verdict(actual, expected)
        assert found["outcome"] == "mismatch"
        assert words in found["reason"]
        assert found["metrics"]["error_used"] == "inf"


def test_what_overflows_in_the_dtype_is_expected_to() -> None:
    expected = truth()
    expected[7] = 1e39
    assert verdict(dtypes.rounded(expected, "f32"), expected)["outcome"] == "pass"
    expected[7] = 3.4e38
    assert verdict(dtypes.rounded(expected, "bf16"), expected, "bf16", rtol=0.01)["outcome"] == "pass"


@pytest.mark.parametrize("dtype", ["i64", "i32", "i8", "u64", "u32", "u16", "u8", "bool"])
def test_whole_numbers_must_be_equal(dtype: str) -> None:
    storage = dtypes.STORAGE[dtype]
    expected = (np.arange(SIZE) * 2654435761 % 97).astype(storage)
    if dtype == "i64":
        expected[3] = 2**62 + 1
    assert verdict(expected, expected, dtype, "exact")["outcome"] == "pass"
    for place in (3, SIZE - 1):
        actual = expected.copy()
        actual[place] = not actual[place] if dtype == "bool" else actual[place] + 1
        found = verdict(actual, expected, dtype, "exact")
        assert found["outcome"] == "mismatch"
        assert found["outputs"][0]["sketch"]["wrong_blocks"] == 1
    swapped = expected.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert (verdict(swapped, expected, dtype, "exact")["outcome"] == "mismatch") == (expected[0] != expected[1])


def test_where_errors_are_not_allowed_the_smallest_is_seen_and_zeros_are_alike() -> None:
    expected = truth()
    expected[10] = 0.0
    actual = single(expected)
    actual[10] = -0.0
    assert verdict(actual, expected, "f32", atol=0.0)["outcome"] == "pass"
    actual[11] = np.nextafter(actual[11], np.float32(9))
    found = verdict(actual, expected, "f32", atol=0.0)
    assert "not equal, by the hash of all elements" in found["reason"]


def test_order_free_outputs_are_sorted_first() -> None:
    expected = truth(size=2 * BLOCK).reshape(2, -1)
    actual = single(expected)[:, ::-1]
    assert verdict(actual, expected, "f32", "order-free")["outcome"] == "pass"
    assert verdict(actual, expected, "f32", "numeric")["outcome"] == "mismatch"


@pytest.mark.parametrize(
    "wrong",
    [np.zeros_like, lambda e: np.full_like(e, e.mean()), lambda e: -e, lambda e: e[::-1], lambda e: np.roll(e, 1),
     lambda e: e * (1 + 1e-3), lambda e: np.full_like(e, np.nan)],
    ids=["zeros", "mean", "sign", "reversed", "shifted", "scaled", "nan"],
)  # fmt: skip
def test_what_is_wrong_all_over_is_wrong_in_every_block(wrong: Any) -> None:
    found = verdict(single(wrong(truth())), truth())
    assert found["outputs"][0]["sketch"]["wrong_blocks"] == 4
    assert "4 of 4 blocks" in found["reason"]
    assert "elements 0 to 13287" in found["reason"]


@pytest.mark.parametrize(("k", "affected"), [(9.5, 64), (10, 4096), (16, 16), (16, 4096)])
def test_errors_are_missed_no_more_often_than_is_proven(k: float, affected: int) -> None:
    """``affected`` elements of a block off alike, their norm ``k`` times that of the bounds, in random places."""
    blocks, random = 200, np.random.default_rng(7)
    index = np.arange(blocks * BLOCK, dtype=np.uint64)
    bound = ATOL * np.sqrt(BLOCK)
    seen = np.zeros(blocks, dtype=bool)
    errors = np.zeros((blocks, BLOCK))
    for row in errors:
        places = random.choice(BLOCK, affected, replace=False)
        row[places] = k * bound / np.sqrt(affected) * random.choice([-1, 1], affected)
    rows = sketch.summary(errors.reshape(-1), errors.reshape(-1))
    seen = (np.abs(rows[:, sketch.SIGNED]) > FACTOR * bound).any(axis=1)
    assert index.size == errors.size
    assert np.mean(~seen) <= missed(k) + 3 * np.sqrt(missed(k) / blocks)


def test_projections_are_as_independent_as_the_proof_takes_them_to_be() -> None:
    """Signs are balanced, by projection, and unlike each other: the mean product of two is 0."""
    words = prng.bits(prng.stream_key(4, 0), np.arange(1 << 16, dtype=np.uint64))
    signs = np.array(
        [((words >> np.uint64(number)) & np.uint64(1)).astype(float) * 2 - 1 for number in range(PROJECTIONS)]
    )
    products = signs @ signs.T / signs.shape[1]
    assert np.abs(products - np.eye(PROJECTIONS)).max() < 6 / 2**8
    assert np.abs(signs.mean(axis=1)).max() < 6 / 2**8


def test_the_numbers_of_the_proof() -> None:
    assert false_alarm() == pytest.approx(2.5e-14, rel=0.02)
    assert missed(FACTOR) == 1
    assert [missed(16), missed(32), missed(1e9)] == pytest.approx([1.3e-3, 1.6e-5, 2.3e-6], rel=0.05)
    assert missed_alone() == 2.0**-32


def test_a_sketch_is_small_and_repeats_to_the_bit() -> None:
    made = sketch.sketch(truth(), "f32", "numeric")
    assert made.nbytes < 0.02 * 8 * SIZE + 2 * 8 * sketch.WIDTH
    assert made.tobytes() == sketch.sketch(truth(), "f32", "numeric").tobytes()
    # However much is summed up at a time.
    parts = [sketch.sketch(truth()[: n * BLOCK], "f32", "numeric")[1:] for n in (1, 2, 3)]
    assert all(np.array_equal(part, made[1 : len(part) + 1]) for part in parts)


def test_kept_elements_are_in_their_blocks_and_all_over_them() -> None:
    places = sketch.picks(50 * BLOCK + 10)
    assert places.shape == (51, SAMPLES)
    assert (places // BLOCK == np.arange(51)[:, None]).all()
    assert places.max() < 50 * BLOCK + 10
    assert np.ptp(places[:50] % BLOCK) > 0.9 * BLOCK


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda rows: rows[:, :-1], "is no sketch"),
        (np.zeros_like, "is no sketch"),
        (lambda rows: rows[:-1], "has 3 blocks, not 4"),
        (lambda rows: np.where(rows == SIZE, SIZE - 1.0, rows), "is a sketch of another output"),
        (lambda rows: np.where(rows == rows[0, 1], np.nan, rows), "is a sketch of another output"),
        (lambda rows: rows.astype(np.float32), "holds <f4, not <f8"),
        (lambda rows: rows[:0], "is empty"),
        (np.ravel, "is no sketch"),
        (lambda rows: np.vstack([rows[:1], np.full_like(rows[1:], np.nan)]), "impossible numbers of elements"),
    ],
)
def test_what_is_no_sketch_of_the_output_proves_nothing(damage: Any, words: str) -> None:
    verdict(single(truth()), truth())
    dtypes.save_npy("s.npy", damage(dtypes.load_npy("s.npy")))
    spec = {"name": "y", "dtype": "f32", "shape": [SIZE], "compare": "numeric", "atol": 1.0, "rtol": 1.0, "layer": "l"}
    found = judge.judge([spec], {"actual-y": "a.npy", "sketch-y": "s.npy"})
    assert found["outcome"] == "infra-error"
    assert words in found["reason"]
    assert found["outputs"][0]["measurable"] is False


@pytest.mark.parametrize("columns", [sketch.PLACES, sketch.EXACT, sketch.L1, sketch.L2, sketch.LARGEST, sketch.SIGNED])
def test_what_is_damaged_within_a_sketch_passes_nothing(columns: Any) -> None:
    actual = single(truth()) + np.float32(1e-3)
    assert verdict(actual, truth(), atol=1.0)["outcome"] == "pass"
    rows = dtypes.load_npy("s.npy")
    rows[1:, columns] = np.nan
    dtypes.save_npy("s.npy", rows)
    spec = {"name": "y", "dtype": "f32", "shape": [SIZE], "compare": "numeric", "atol": 1.0, "rtol": 1.0, "layer": "l"}
    # Without the hash of the elements the other checks still hold.
    word = "pass" if columns == sketch.EXACT else "mismatch"
    assert judge.judge([spec], {"actual-y": "a.npy", "sketch-y": "s.npy"})["outcome"] == word


def test_nothing_but_nan_is_no_measure() -> None:
    found = verdict(single(np.full(SIZE, np.nan)), np.full(SIZE, np.nan))
    assert found["outcome"] == "infra-error"
    assert "holds nothing but NaN" in found["reason"]


def test_bounds_beyond_all_numbers_pass_nothing() -> None:
    big = np.full(SIZE, 1e308)
    big[::2] *= -1
    other = big * 0.5
    assert verdict(other, big, "f64", rtol=1e-3)["outcome"] == "mismatch"


def test_the_tool_refuses_what_is_not_the_output() -> None:
    dtypes.save_npy("e.npy", np.zeros(4))
    spec = {"name": "y", "dtype": "f32", "shape": [5], "compare": "numeric"}
    with pytest.raises(ActionFailed, match=r"is float64 \[4\], not f32 \[5\]"):
        run(Action(params={"outputs": [spec]}, inputs={"expected-y": "e.npy"}, outputs={"sketch-y": "s.npy"}))
