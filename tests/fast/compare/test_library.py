"""The library as people call it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.compare import Comparison, assert_close, compare

RNG = np.random.default_rng(4)
RIGHT = RNG.normal(size=(33, 97)).astype(np.float32)


def test_nothing_given_means_equal() -> None:
    assert compare(RIGHT, RIGHT)
    found = compare(np.nextafter(RIGHT, np.float32(9)), RIGHT)
    assert (bool(found), found.passed, found.wrong, found.elements) == (False, False, RIGHT.size, RIGHT.size)
    assert compare([1, 2], [1, 2]).dtype == "i64"
    assert not compare([True, False], [True, True])
    assert compare(0.0, -0.0)
    assert not compare(0.0, -0.0, zeros="distinct", atol=1.0)


def test_bounds() -> None:
    wrong = RIGHT.copy()
    wrong[:, 96] = 0
    wrong[3, 4] = np.nan
    found = compare(wrong, RIGHT, rtol=1e-5, atol=1e-6, max_ulp=4)
    assert (found.wrong, found.nan_mismatches, found.over_atol, found.over_rtol, found.over_ulp) == (34, 1, 33, 33, 33)
    assert "only index 96 along axis 1 of 97, the last, all of it: a remainder, after tiles of 32" in found.where
    assert "nothing was written there" in found.looks
    assert found.worst[0]["index"] == [3, 4]
    text = found.report()
    assert text == str(found)
    for words in ("[3, 4]", "33 over the bound, 1 NaN", "33 (1.03 %) over atol", "or 4 ulp", "the worst 5", "cosine"):
        assert words in text, words
    assert "34 of 3201" in repr(found)
    with pytest.raises(AttributeError, match="largest"):
        _ = found.largest


def test_one_bound_that_holds_is_enough() -> None:
    expected = np.float32([1e-8, 1.0])
    actual = np.float32([2e-8, np.nextafter(np.float32(1), np.float32(2))])
    assert not compare(actual, expected, max_ulp=1)
    assert not compare(actual, expected, atol=2e-8)
    assert compare(actual, expected, atol=2e-8, max_ulp=1)


@pytest.mark.parametrize(
    ("actual", "expected", "reason"),
    [
        (RIGHT.astype(np.float64), RIGHT, "the dtype is f64, not f32"),
        (RIGHT.T, RIGHT, "the shape is [97, 33], not [33, 97]; both have 3201 elements"),
        (RIGHT[:3], RIGHT, "the shape is [3, 97], not [33, 97]"),
        (RIGHT[:0], RIGHT[:0], "there are no elements (shape [0, 97]): nothing was compared"),
        (RIGHT.astype(">f4"), RIGHT, "actual is big-endian (>f4); what is compared is little-endian (<f4)"),
        (RIGHT, RIGHT.astype(">f4"), "expected is big-endian (>f4); what is compared is little-endian (<f4)"),
        (np.full(4, np.nan), np.full(4, np.nan), "nothing but NaN is expected, which proves nothing"),
        (np.int32([1]), np.uint32([1]), "the dtype is i32, not u32"),
    ],
)
def test_what_cannot_be_compared_is_a_mismatch(actual: Any, expected: Any, reason: str) -> None:
    found = compare(actual, expected, rtol=1.0, atol=9.0)
    assert not found
    assert found.reason == reason
    assert found.report()


@pytest.mark.parametrize(
    "actual",
    [np.array([{}]), np.array(["a"]), np.zeros(2, dtype="M8[s]"), np.zeros(2, dtype=[("a", "f4")]), np.longdouble(1)],
)
def test_what_holds_no_numbers_is_refused(actual: Any) -> None:
    with pytest.raises(ValueError, match="actual holds"):
        compare(actual, np.zeros(2))


def test_norms_bound_the_whole() -> None:
    assert compare(RIGHT * np.float32(1.001), RIGHT, l2=1e-2, l1=1e-2, max_norm=1e-2, cosine=0.999)
    found = compare(RIGHT * np.float32(1.1), RIGHT, l2=1e-2)
    assert found.reason.startswith("the l2 norm of the error is 0.1 of that of what is expected")
    assert "cosine is -1" in compare(-RIGHT, RIGHT, cosine=0.9).reason
    # Elements are bounded, too, where a bound of theirs is given; NaN is wrong in any case.
    assert not compare(RIGHT * np.float32(1.001), RIGHT, l2=1e-2, rtol=1e-6)
    broken = RIGHT.copy()
    broken[0, 0] = np.nan
    assert not compare(broken, RIGHT, l2=1e-2)
    assert math.isfinite(compare(broken, RIGHT, l2=1e-2).norms["l2"]["rel"])


@pytest.mark.parametrize("dtype", ["bf16", *dtypes.FLOAT8])
def test_types_that_numpy_does_not_know(dtype: str) -> None:
    stored = dtypes.rounded(RNG.normal(size=50), dtype)
    other = stored.copy()
    other[7] ^= 1
    assert compare(stored, stored, dtype=dtype)
    found = compare(other, stored, dtype=dtype)
    assert (found.wrong, found.max_ulp) == (1, 1.0)
    assert compare(other, stored, dtype=dtype, max_ulp=1)


def test_arrays_of_ml_dtypes_go_by_their_names() -> None:
    for name, ours in (("bfloat16", "bf16"), ("float8_e4m3fn", "f8E4M3FN"), ("float8_e5m2fnuz", "f8E5M2FNUZ")):
        values = np.array([1.0, -2.0, 0.0]).astype(getattr(ml_dtypes, name))
        assert compare(values, values).dtype == ours
        assert compare(values, -values).wrong == 2


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("ours", dtypes.FLOAT8)
def test_what_is_too_large_for_8_bits_is_beyond_its_largest_number(ours: str, sign: float) -> None:
    values = dtypes.decode(np.arange(256, dtype=np.uint8), ours) * sign
    largest = np.flatnonzero(values == values[np.isfinite(values)].max()).astype(np.uint8)
    for expected in (sign * 1e9, sign * np.inf):
        zeros = compare(np.zeros(1, np.uint8), np.array([expected]), dtype=ours, golden=True)
        assert not zeros, "0 is not what is right"
        near = compare(largest, np.array([expected]), dtype=ours, golden=True, max_ulp=1)
        assert near.max_ulp == 1
        assert bool(near) == np.isfinite(expected)


@pytest.mark.parametrize("ours", dtypes.FLOAT8)
def test_8_bit_types_are_those_of_ml_dtypes(ours: str) -> None:
    theirs = getattr(ml_dtypes, f"float8_{ours.removeprefix('f8').lower()}")
    codes = np.arange(256, dtype=np.uint8)
    right = codes.view(theirs).astype(np.float64)
    assert np.array_equal(dtypes.decode(codes, ours), right, equal_nan=True)
    finite = np.sort(right[np.isfinite(right)])
    beyond = finite[-1] + (finite[-1] - finite[-2]) * np.array([0.49, 0.5, 0.51, 40])
    values = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, beyond, -beyond, RNG.normal(size=3000) * 4.0])
    with np.errstate(all="ignore"):
        expected = values.astype(theirs).astype(np.float64)
    assert np.array_equal(dtypes.decode(dtypes.rounded(values, ours), ours), expected, equal_nan=True)


def test_a_golden_is_a_reference_in_double() -> None:
    golden = RIGHT.astype(np.float64) * (1 + 1e-9)
    assert not compare(RIGHT, golden, rtol=1e-6)
    assert compare(RIGHT, golden, rtol=1e-6, golden=True)
    assert compare(RIGHT, golden, max_ulp=0, golden=True).max_ulp == 0
    assert "a golden of f32 holds float64, not float32" in compare(RIGHT, RIGHT, golden=True).reason


def test_large_arrays_have_a_census_where_they_are_wrong() -> None:
    expected = np.ones((1000, 1000), dtype=np.float32)
    found = compare(expected, expected)
    assert found
    assert "worst" not in found.record
    assert found.max_ulp == 0
    assert compare(expected, expected, full=True).norms["l1"]["rel"] == 0
    actual = expected.copy()
    actual[:, 992:] = 2
    found = compare(actual, expected)
    assert (found.passed, found.wrong, found.over_atol) == (False, 8000, 8000)
    assert "record" not in vars(found), "the census is taken when somebody asks"
    assert (found.wrong, found.where) == (
        8000,
        "only indices >= 992 along axis 1 of 1000: a remainder, after tiles of 32",
    )


def test_assert_close_raises_with_the_census() -> None:
    assert_close(RIGHT, RIGHT)
    with pytest.raises(AssertionError, match=r"3201 of 3201 elements .* are wrong(.|\n)*the worst 5"):
        assert_close(RIGHT + 1, RIGHT, atol=0.5)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("shape", [(), (5,), (33, 97), (2, 3, 700, 900)])
def test_pictures(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    expected = np.ones(shape, dtype=np.float32)
    actual = expected.copy()
    actual.reshape(-1)[-1] = np.nan
    path = tmp_path / f"map{suffix}"
    compare(actual, expected).picture(path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == ".png" else b"<svg")
    assert len(data) < 100_000


def test_a_picture_shows_each_element(tmp_path: Path) -> None:
    import struct
    import zlib

    expected = np.ones((2, 3), dtype=np.float32)
    actual = expected.copy()
    actual[1, 2], actual[0, 1] = np.nan, 3
    compare(actual, expected, atol=0.5).picture(tmp_path / "map.png")
    data = (tmp_path / "map.png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (3 * 213, 2 * 213)
    size = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + size]), dtype=np.uint8).reshape(height, 1 + 3 * width)[:, 1:]
    cells = rows.reshape(height, width, 3)[::213, ::213]
    assert cells[1, 2].tolist() == [0, 0, 0]
    assert cells[0, 0].tolist() == [255, 255, 255]
    assert cells[0, 1, 0] > cells[0, 1, 2]


def test_words_beside_a_map_stay_within_it(tmp_path: Path) -> None:
    expected = np.ones((3, 64, 97), dtype=np.float32)
    actual = expected.copy()
    actual[1:, 60:, 96] = 2
    found = compare(actual, expected, name="some-directory/of-somebody/and-a-long-name.npz:weights")
    assert len(found.record["where"]) > 100
    found.picture(tmp_path / "map.svg")
    drawn = ElementTree.parse(tmp_path / "map.svg").getroot()
    texts = [text for text in drawn if text.tag.endswith("text") and text.text]
    assert found.record["where"] in " ".join(text.text or "" for text in texts)
    for text in texts:
        assert float(text.get("x", 0)) + 7 * len(text.text or "") <= float(drawn.get("width", 0))


def test_what_was_not_compared_has_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the dtype is"):
        compare([1], [1.0]).picture(tmp_path / "map.png")
    with pytest.raises(ValueError, match=r"\.svg"):
        compare([1.0], [1.0]).picture(tmp_path / "map.gif")


def test_bounds_that_are_none() -> None:
    with pytest.raises(ValueError, match="rtol: -1 is no bound"):
        compare([1.0], [1.0], rtol=-1)
    with pytest.raises(ValueError, match="there is no dtype 'f9'"):
        compare([1.0], [1.0], dtype="f9")
    with pytest.raises(ValueError, match="not how bf16 is stored"):
        compare([1.0], [1.0], dtype="bf16")

    for bound in ({"l1": math.nan}, {"max_norm": -1}, {"cosine": math.nan}, {"atol": "8*eps(dtype)"}, {"rtol": "8 *"}):
        with pytest.raises(ValueError, match=next(iter(bound))):
            compare([1.0], [1.0], **bound)  # type: ignore[arg-type]


def test_a_bound_may_be_an_expression() -> None:
    assert compare([1 + 2.0**-21], [1.0], rtol="4*eps(f32)")
    assert not compare([1 + 2.0**-20], [1.0], rtol="4*eps(f32)")


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_norms_neither_overflow_nor_vanish(scale: float) -> None:
    expected = np.full(4, 2 * scale)
    assert not compare(expected / 2, expected, l2=0.4)
    assert compare(expected / 2, expected, l2=0.5, cosine=0.999)
    assert not compare(expected * [1, -1, 1, -1], expected, cosine=0.1)


def test_what_is_within_a_bound_is_not_called_equal() -> None:
    found = compare([1.0], [6.0], atol=math.inf)
    assert found
    assert "equal" not in found.reason


class _Foreign:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("array", [np.ma.masked_array([1.0], mask=[True]), _Foreign()])
def test_what_is_behind_a_mask_or_no_array_is_refused(array: Any) -> None:
    with pytest.raises(ValueError, match=r"actual (is a masked array|cannot be converted)"):
        compare(array, [1.0])
    with pytest.raises(ValueError, match=r"expected (is a masked array|cannot be converted)"):
        compare([1.0], array)


def test_what_a_result_does_not_have_it_says_why() -> None:
    with pytest.raises(AttributeError, match="'where': the shape is"):
        _ = compare([1.0], [1.0, 2.0]).where
    with pytest.raises(AttributeError, match="full=True"):
        _ = compare(np.ones(1 << 19), np.ones(1 << 19)).where


def test_a_picture_goes_by_the_policies(tmp_path: Path) -> None:
    same = np.array([np.nan, 1.0])
    for nan in ("same", "refuse"):
        compare(same, same, nan=nan, name="a\0\udcff").picture(tmp_path / f"{nan}.png")  # type: ignore[arg-type]
        compare(same, same, nan=nan, name="a\0\udcff").picture(tmp_path / f"{nan}.svg")  # type: ignore[arg-type]
    assert (tmp_path / "same.png").read_bytes() != (tmp_path / "refuse.png").read_bytes()
    assert "a\\x00\\udcff" in (tmp_path / "same.svg").read_text()


def test_what_a_result_is() -> None:
    assert isinstance(compare([1], [1]), Comparison)
    assert compare([1], [1]).record["outcome"] == "pass"
