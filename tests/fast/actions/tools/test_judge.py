"""Judging: what is right passes, everything else is a mismatch that says what is wrong; nothing passes unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.tools import judge, sketch

pytestmark = pytest.mark.usefixtures("in_tmp_path")

LAYER = "golden/tolerances.yaml:12:5"


def spec(
    shape: list[int], dtype: str = "f32", compare: str = "numeric", name: str = "y", **more: Any
) -> dict[str, Any]:
    bounds = {"atol": 1e-5, "rtol": 0.0, "atol_text": "10 ** -5", "rtol_text": "0"}
    return {
        "name": name,
        "dtype": dtype,
        "shape": shape,
        "compare": compare,
        "layer": LAYER,
        "rationale": "r",
        **bounds,
        **more,
    }


def save(name: str, array: Any, dtype: Any = None) -> str:
    dtypes.save_npy(f"{name}.npy", np.asarray(array, dtype=dtype))
    return f"{name}.npy"


def verdict(specs: list[dict[str, Any]], files: dict[str, str]) -> dict[str, Any]:
    judge.run(Action(params={"outputs": specs}, inputs=files, outputs={"verdict": "verdict.json"}))
    text = Path("verdict.json").read_text(encoding="utf-8")
    judge.run(Action(params={"outputs": specs}, inputs=files, outputs={"verdict": "verdict.json"}))
    assert Path("verdict.json").read_text(encoding="utf-8") == text
    found: dict[str, Any] = json.loads(text)
    return found


def compare(actual: Any, expected: Any, dtype: str = "f32", compare: str = "numeric", **more: Any) -> dict[str, Any]:
    stored = np.asarray(actual, dtype=dtypes.STORAGE[dtype])
    files = {"actual-y": save("a", stored), "expected-y": save("e", expected, dtypes.golden_storage(dtype))}
    return verdict([spec(list(stored.shape), dtype, compare, **more)], files)


def test_what_is_within_the_bound_passes_and_says_how_much_of_it_was_used() -> None:
    found = compare([1.0, 2.0], [1.0, 2.0 + 2.5e-6])
    assert found["outcome"] == "pass"
    assert found["metrics"]["error_used"] == pytest.approx(0.25)
    assert (found["metrics"]["elements"], found["metrics"]["wrong"]) == (2, 0)
    assert found["reason"] == "all 2 elements are right; the worst error takes 25 % of its bound"
    assert found["outputs"][0]["layer"] == LAYER


@pytest.mark.parametrize(
    ("actual", "by_layer", "said"),
    [
        ([1.0, 2.0, 3.1], None, "1 of 3 elements (33.3 %) are wrong; worst at [2]"),
        ([1.1, 2.0, 3.1], 1, "2 of 3 elements (66.7 %) are wrong, 1 of them without a derived bound; worst at"),
        ([1.1, 2.0, 3.0], 1, "1 of 3 elements (33.3 %) are wrong, 1 of them without a derived bound; worst at [0]"),
    ],
)
def test_wrong_elements_without_a_derived_bound_are_counted(
    actual: list[float], by_layer: int | None, said: str
) -> None:
    files = {
        "actual-y": save("a", actual, np.float32),
        "expected-y": save("e", [1.0, 2.0, 3.0]),
        "bound-y": save("b", [np.inf, np.inf, 1e-3]),
    }
    found = verdict([spec([3], derived=True)], files)
    assert found["outputs"][0].get("wrong_by_layer") == by_layer
    assert said in found["reason"]


def test_a_mismatch_names_element_expected_actual_bound_and_layer() -> None:
    found = compare([[1.0, 2.0], [3.0, -4.0]], [[1.0, 2.0], [3.0, 4.0]])
    assert found["outcome"] == "mismatch"
    for words in ("y: 1 of 4 elements (25 %)", "[1, 1]", "expected 4.0", "actual -4.0", "off by 8", "1e-05", LAYER):
        assert words in found["reason"]


@pytest.mark.parametrize(("atol", "rtol"), [(float("nan"), 0), (-1, 0), (0, float("inf"))])
def test_a_tolerance_that_bounds_nothing_is_no_pass(atol: float, rtol: float) -> None:
    found = compare([1.0], [1.0], atol=atol, rtol=rtol)
    assert found["outcome"] == "infra-error"
    assert "is not a bound" in found["reason"]


def test_bf16_is_decoded_from_its_bits() -> None:
    assert compare([0x3F80, 0xC049], [1.0, -3.140625], "bf16")["outcome"] == "pass"
    assert compare([0x3F80, 0x4049], [1.0, -3.140625], "bf16")["outcome"] == "mismatch"


@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"])
def test_exact_is_exact_whatever_the_tolerance(dtype: str) -> None:
    assert compare([0, 1, 1], [0, 1, 1], dtype, "exact", atol=5)["outcome"] == "pass"
    found = compare([0, 1, 0], [0, 1, 1], dtype, "exact", atol=5)
    assert found["outcome"] == "mismatch"
    assert "must be equal" in found["reason"]


def test_exact_holds_for_floating_point_too() -> None:
    assert compare([0.5, np.nan, -np.inf, 0.0], [0.5, np.nan, -np.inf, -0.0], compare="exact")["outcome"] == "pass"
    # The nearest number that there is, and its neighbour.
    assert compare([np.float32(0.1)], [0.1], compare="exact")["outcome"] == "pass"
    neighbour = np.nextafter(np.float32(0.1), np.float32(1))
    assert compare([neighbour], [0.1], compare="exact")["outcome"] == "mismatch"


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
@pytest.mark.parametrize(
    ("value", "other", "weak"),
    [
        (np.nan, 0.0, "NaN everywhere"),
        (np.inf, -np.inf, "the mean everywhere"),
        (-np.inf, np.nan, "the mean everywhere"),
    ],
)
def test_nothing_but_nan_or_infinities_is_right_and_weak(value: float, other: float, weak: str, dtype: str) -> None:
    found = compare([value] * 3, [value] * 3, dtype)
    assert (found["outcome"], found["outputs"][0]["weak"]) == ("pass", [weak])
    found = compare([value, value, other], [value] * 3, dtype)
    assert (found["outcome"], found["outputs"][0]["wrong"]) == ("mismatch", 1)
    assert compare([other] * 3, [value] * 3, dtype)["outputs"][0]["wrong"] == 3


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
def test_order_free_looks_at_rows_as_sets(dtype: str) -> None:
    assert compare([[3, 1, 2], [4, 6, 5]], [[1, 2, 3], [6, 5, 4]], dtype, "order-free")["outcome"] == "pass"
    assert compare([[4, 1, 2], [3, 6, 5]], [[1, 2, 3], [6, 5, 4]], dtype, "order-free")["outcome"] == "mismatch"
    assert compare([[3, 3, 2]], [[2, 2, 3]], dtype, "order-free")["outcome"] == "mismatch"


def test_order_free_sorts_bf16_by_value_and_nan_last() -> None:
    words = dtypes.encode(np.array([2.0, -1.0, 0.5, -3.0]), "bf16")
    assert compare(words, [-3.0, -1.0, 0.5, 2.0], "bf16", "order-free")["outcome"] == "pass"
    assert compare([np.nan, 1.0, 2.0], [2.0, np.nan, 1.0], "f32", "order-free")["outcome"] == "pass"
    assert compare(7.0, 7.0, "f32", "order-free")["outcome"] == "pass"


def test_nothing_passes_without_having_been_compared() -> None:
    assert "no outputs" in verdict([], {})["reason"]
    assert verdict([], {})["outcome"] == "mismatch"
    empty = {"actual-y": save("a", np.zeros((0, 3), "<f4")), "expected-y": save("e", np.zeros((0, 3)))}
    assert "empty" in verdict([spec([0, 3])], empty)["reason"]
    assert verdict([spec([0, 3])], empty)["outcome"] == "infra-error", "the golden is empty"


def one(array: Any, dtype: str = "<f4") -> str:
    return save("a", array, dtype)


def test_what_is_missing_or_more_is_no_pass() -> None:
    golden = save("e", [1.0], "<f8")
    for files, words in [
        ({"actual-y": one([1])}, "y: the golden is missing; matrix golden update --write makes it"),
        (
            {"actual-y": one([1]), "expected-y": "absent.npy"},
            "y: the golden is missing; matrix golden update --write makes it",
        ),
        ({"expected-y": golden}, "y: the output is missing"),
        ({"actual-y": one([1]), "expected-y": golden, "actual-z": one([1])}, "z: the kernel has an output"),
        ({"actual-y": one([1]), "expected-y": golden, "expected-z": golden}, "z: there is a golden"),
    ]:
        found = verdict([spec([1])], files)
        no_golden = "the golden is missing" in words
        assert found["outcome"] == ("infra-error" if no_golden else "mismatch")
        assert words in found["reason"]
        measurable = all(output.get("measurable", True) for output in found["outputs"])
        assert measurable != no_golden


def test_a_missing_golden_hides_no_mismatch() -> None:
    """Something under test failed, whatever the order of outputs."""
    files = {"actual-y": one([1]), "actual-z": "absent.npy", "expected-z": save("e", [1.0], "<f8")}
    found = verdict([spec([1]), {**spec([1]), "name": "z"}], files)
    assert (found["outcome"], found["reason"]) == ("mismatch", "z: the output is missing (and 1 more of 2 outputs)")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((2, 1), "<f4"), "the shape [2, 1], not [2]"),
        (np.ones(3, "<f4"), "the shape [3], not [2]"),
        (np.float32(1), "the shape [], not [2]"),
        (np.ones(2, "<f8"), "holds <f8, not <f4"),
        (np.ones(2, ">f4"), "holds >f4, not <f4"),
        (np.ones(2, "<i4"), "holds <i4, not <f4"),
    ],
)
def test_another_shape_or_dtype_is_a_mismatch(array: Any, words: str) -> None:
    with open("a.npy", "wb") as file:
        np.save(file, array)
    found = verdict([spec([2])], {"actual-y": "a.npy", "expected-y": save("e", np.ones(2))})
    assert found["outcome"] == "mismatch"
    assert words in found["reason"]


@pytest.mark.parametrize(
    ("stored", "outcome"), [("<i4", "pass"), ("<u4", "pass"), ("<i8", "mismatch"), ("<f4", "mismatch")]
)
def test_integers_without_a_sign_are_those_of_an_unsigned_output(stored: str, outcome: str) -> None:
    right = np.array([7, 2**32 - 1], "<u4")
    values = right.view("<i4").astype(stored) if stored == "<i4" else right.astype(stored)
    files = {"actual-y": save("a", values, stored), "expected-y": save("e", right, "<u4")}
    assert verdict([spec([2], "u32", "exact")], files)["outcome"] == outcome


def test_files_that_are_no_arrays_are_no_pass() -> None:
    good = Path(one([1.0, 2.0])).read_bytes()
    huge = good.replace(b"(2,)", b"(2000000000000,)").replace(b"            \n", b"\n")
    bad = {
        "empty": b"",
        "text": b"1.0 2.0\n",
        "truncated": good[:-1],
        "header only": good[:-8],
        "half a header": good[:20],
        "longer": good + b"\0",
        "huge": huge,
        "another version": good[:6] + b"\x09\x00" + good[8:],
    }
    golden = save("e", [1.0, 2.0], "<f8")
    for name, content in bad.items():
        Path("bad.npy").write_bytes(content)
        for files in ({"actual-y": "bad.npy", "expected-y": golden}, {"actual-y": "a.npy", "expected-y": "bad.npy"}):
            found = verdict([spec([2])], files)
            assert found["outcome"] == ("mismatch" if files["actual-y"] == "bad.npy" else "infra-error"), name
            assert "is not a readable .npy file" in found["reason"], name
            assert found["outputs"][0].get("measurable", True) == (files["actual-y"] == "bad.npy"), name


def test_nobody_can_do_better_than_the_rounded_golden() -> None:
    """A third is no single; what is too large for a dtype is infinite in it, on the right side."""
    exact = {**spec([3], atol=0.0, rtol=0.0), "compare": "exact"}
    golden = np.array([1 / 3, 1e39, -1e39])
    with np.errstate(over="ignore"):
        right = golden.astype("<f4")
    assert list(right[1:]) == [np.inf, -np.inf]
    for given, outcome in ((right, "pass"), (-right, "mismatch"), (np.nextafter(right, np.float32(0)), "mismatch")):
        for one_spec in (exact, spec([3], atol=0.0, rtol=0.0)):
            found = verdict([one_spec], {"actual-y": one(given), "expected-y": save("e", golden, "<f8")})
            assert found["outcome"] == outcome, (given, found["reason"])
    wrong = verdict([exact], {"actual-y": one(-right), "expected-y": save("e", golden, "<f8")})
    assert "they must be equal" in wrong["reason"]


def test_a_pickle_is_never_opened() -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, ("sprung", "w")

    with open("a.npy", "wb") as file:
        np.save(file, np.array([Trap()], dtype=object), allow_pickle=True)
    found = verdict([spec([1])], {"actual-y": "a.npy", "expected-y": save("e", [1.0])})
    assert (found["outcome"], Path("sprung").exists()) == ("mismatch", False)
    assert "Python objects" in found["reason"]


def test_fortran_order_is_only_another_way_to_write_the_same() -> None:
    array = np.arange(6, dtype="<f4").reshape(2, 3)
    with open("a.npy", "wb") as file:
        np.save(file, np.asfortranarray(array))
    assert verdict([spec([2, 3])], {"actual-y": "a.npy", "expected-y": save("e", array, "<f8")})["outcome"] == "pass"


def test_one_wrong_output_of_two_is_a_mismatch() -> None:
    files = {"actual-y": one([1.0]), "expected-y": save("e", [1.0])}
    files |= {"actual-i": save("i", [3], "<i4"), "expected-i": save("j", [4], "<i4")}
    found = verdict([spec([1]), spec([1], "i32", "exact", "i")], files)
    assert found["outcome"] == "mismatch"
    assert [output["outcome"] for output in found["outputs"]] == ["pass", "mismatch"]
    assert found["metrics"]["error_used"] == "inf"
    assert found["reason"].startswith("i: 1 of 1 elements")


@pytest.mark.parametrize(
    "dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
def test_every_dtype_and_rank_passes_when_equal_and_fails_when_not(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.ones(shape)
    stored = dtypes.encode(values, dtype)
    assert compare(stored, dtypes.decode(stored, dtype), dtype)["outcome"] == "pass"
    assert (
        compare(dtypes.encode(values * 0, dtype), dtypes.decode(stored, dtype), dtype, atol=0.5)["outcome"]
        == "mismatch"
    )


def test_a_pass_says_what_else_would_pass() -> None:
    found = compare([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], atol=1.0)
    assert found["outputs"][0]["weak"] == ["the mean everywhere"]
    assert "weak" not in compare([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])["outputs"][0]
    # What fails has told something.
    assert "weak" not in compare([9.0, 2.0, 3.0], [1.0, 2.0, 3.0], atol=1.0)["outputs"][0]


def test_an_input_that_would_pass_is_named_sorted_where_order_does_not_count() -> None:
    files = {"actual-y": save("a", [2, 1, 3], "<f4"), "expected-y": save("e", [3, 2, 1], "<f8")}
    files |= {"arg-x": save("x", [1, 2, 3], "<f4"), "arg-n": save("n", [1, 2, 3], "<i4")}
    found = verdict([spec([3], compare="order-free", weak_reason="A permutation.")], files)["outputs"][0]
    assert (found["outcome"], found["weak"], found["weak_reason"]) == ("pass", ["the input x"], "A permutation.")
    files["actual-y"] = files["expected-y"]
    assert "weak" not in verdict([spec([3])], files)["outputs"][0]


@pytest.mark.parametrize(
    ("actual", "wrong"), [([1.05, 2.05], 0), ([np.inf, 2], 0), ([np.nan, 2], 0), ([1.2, 2], 1), ([np.inf, np.inf], 1)]
)
def test_where_a_program_may_overflow_finite_and_infinite_elements_are_right(actual: list[float], wrong: int) -> None:
    """Bounds of elements are negative there; the others must be finite."""
    files = {"actual-y": save("a", actual, "<f2"), "expected-y": save("e", [1.0, 2.0])}
    found = verdict([spec([2], "f16")], files | {"bound-y": save("b", [-0.1, 0.1])})
    assert (found["outcome"], found["metrics"]["wrong"]) == ("mismatch" if wrong else "pass", wrong)
    assert "weak" not in found["outputs"][0]


def test_a_program_that_may_overflow_everywhere_is_weak() -> None:
    files = {"actual-y": save("a", [1, 2], "<f2"), "expected-y": save("e", [1.0, 2.0])}
    found = verdict([spec([2], "f16")], files | {"bound-y": save("b", [-0.1, -0.1])})
    assert (found["outcome"], found["outputs"][0]["weak"]) == ("pass", ["NaN everywhere"])


def test_a_sketch_is_weak_against_constants() -> None:
    stored = np.full(5000, 2.0, dtype="<f4")
    files = {
        "actual-y": save("a", stored),
        "sketch-y": save("s", sketch.sketch(stored.astype("<f8"), "f32", "numeric")),
    }
    assert verdict([spec([5000])], files)["outputs"][0]["weak"] == ["the mean everywhere"]
