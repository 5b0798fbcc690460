"""The report of a mismatch holds what a person needs, within 100 columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.tools.judge import judge
from mlir_matrix.compare.report import render

pytestmark = pytest.mark.usefixtures("in_tmp_path")

RATIONALE = "Sums of K products have an error that grows with the square root of K, " * 4


def verdict(actual: Any, expected: Any, dtype: str = "f32", compare: str = "numeric", **more: Any) -> dict[str, Any]:
    stored = np.asarray(actual, dtype=dtypes.STORAGE[dtype])
    dtypes.save_npy("a.npy", stored)
    dtypes.save_npy("e.npy", np.asarray(expected, dtype=dtypes.golden_storage(dtype)))
    spec = {
        "name": "y", "dtype": dtype, "shape": list(stored.shape), "compare": compare, "atol": 4e-06, "rtol": 1e-07,
        "atol_text": "4*sqrt(K)*eps(f32)", "rtol_text": "1e-07", "layer": "golden/matmul/tolerances.yaml:3:5",
        "rationale": RATIONALE, **more,
    }  # fmt: skip
    return judge([spec], {"actual-y": "a.npy", "expected-y": "e.npy"})


def test_a_flipped_sign_is_named_with_element_values_bound_and_layer() -> None:
    expected = np.linspace(0.1, 1.0, 600).reshape(20, 30)
    actual = expected.copy()
    actual[7, 12] *= -1
    text = render(verdict(actual, expected))
    value = expected[7, 12]
    for words in (
        "output y: f32 [20, 30], mismatch: 1 of 600 elements are wrong (0.167 %)",
        "where     one element",
        "bound     atol 4e-06 = 4*sqrt(K)*eps(f32), rtol 1e-07",
        "from      golden/matmul/tolerances.yaml:3:5",
        "because   Sums of K products",
        "the wrong element",
        "[7, 12]",
        f"{value:.9g}",
        f"{float(np.float32(-value)):.9g}",
        f"{2 * value:.3g}",
    ):
        assert words in text, words


def test_lines_are_at_most_100_columns_wide() -> None:
    rng = np.random.default_rng(0)
    expected = rng.normal(size=(2, 3, 100, 5)) * 10.0 ** rng.integers(-30, 30, size=(2, 3, 100, 5))
    actual = (expected * (1 + rng.normal(size=expected.shape))).astype(np.float32)
    actual.reshape(-1)[:3] = (np.nan, np.inf, -np.inf)
    text = render(verdict(actual, expected))
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "1 NaN, 2 infinite" in text
    assert "no tolerance is enough" in text


def test_what_it_takes_to_pass_really_does() -> None:
    expected, actual = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.001234, 3.0])
    text = render(verdict(actual, expected))
    atol = float(text.split("an atol of at least ")[1].split(",")[0])
    rtol = float(text.split("an rtol of at least ")[1].split()[0].rstrip(","))
    assert verdict(actual, expected, atol=atol)["outcome"] == "pass"
    assert verdict(actual, expected, rtol=rtol)["outcome"] == "pass"
    assert atol < 0.00125
    assert rtol < 0.00063


def test_integers_show_no_bound() -> None:
    text = render(verdict([1, 2, 3], [1, 5, 3], "i32", "exact"))
    assert "bound     none: the elements must be equal" in text
    assert "wrong (33.3 %)" in text


def test_outputs_that_could_not_be_compared_say_why() -> None:
    spec = {"name": "y", "dtype": "f32", "shape": [1], "compare": "numeric", "atol": 0, "rtol": 0}
    text = render(judge([spec], {}))
    assert "output y: f32 [1], infra-error" in text
    assert "y: the golden is missing" in text


def test_nothing_compared_says_so() -> None:
    assert "no outputs" in render(judge([], {}))


def test_order_free_says_that_indices_are_after_sorting() -> None:
    assert "after sorting" in render(verdict([3.0, 1.0], [1.0, 4.0], compare="order-free"))


def test_what_is_right_is_one_line() -> None:
    text = render(verdict([1.0, 2.0], [1.0, 2.0]))
    assert text == "output y: f32 [2], pass: all 2 elements are right; the worst error takes 0 % of its bound"


def test_elements_with_bounds_of_their_own_show_what_decided() -> None:
    """The tolerance of all elements decides nothing, so that none of its numbers is printed."""
    dtypes.save_npy("a.npy", np.float32([1, 2.5, 3, 4]))
    dtypes.save_npy("e.npy", np.float64([1, 2, 2.875, 4]))
    dtypes.save_npy("b.npy", np.float64([0.5, 0.125, 0.0625, 0.5]))
    spec: Any = {
        "name": "y", "dtype": "f32", "shape": [4], "compare": "numeric", "atol": 4e-06, "rtol": 1e-07, "derived": True,
        "atol_text": "of each element", "rtol_text": "of each element", "layer": "l", "rationale": "derived: r",
    }  # fmt: skip
    text = render(judge([spec], {"actual-y": "a.npy", "expected-y": "e.npy", "bound-y": "b.npy"}))
    assert text.splitlines()[:9] == [
        "output y: f32 [4], mismatch: 2 of 4 elements are wrong (50 %)",
        "  of these  2 over the bound",
        "  where     only indices 1 to 2 along axis 0 of 4",
        "  bound     each element has its own",
        "  from      l",
        "  because   derived: r",
        "  worst     at [1]: expected 2, actual 2.5, off by 0.5, 4 times its bound of",
        "            0.125",
        "  largest   absolute 0.5, relative 0.25, 2097152 ulp: 4 times its bound",
    ]
    assert "atol" not in text
    assert "rtol" not in text
