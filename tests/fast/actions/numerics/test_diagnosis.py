"""What an output looks like is said where it is so, and not otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.diagnosis import diagnose

RNG = np.random.default_rng(5)
RIGHT = RNG.normal(size=(48, 40))
SQUARE = RNG.normal(size=(40, 40))


def looks(actual: Any, expected: Any = RIGHT, dtype: str = "f32") -> str:
    stored = np.asarray(actual, dtype=dtypes.STORAGE[dtype])
    return diagnose(stored, np.asarray(expected, dtype=dtypes.golden_storage(dtype)), dtype, Criteria(rtol=1e-7))


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (np.zeros_like(RIGHT), "what is wrong is 0"),
        (-RIGHT, "sign is turned"),
        (np.roll(RIGHT, 1, 1), "shifted by one along axis 1: an index too low"),
        (np.roll(RIGHT, -1, 0), "shifted by one along axis 0: an index too high"),
        (RIGHT[::-1], "reversed along axis 0"),
        (RIGHT.T.reshape(RIGHT.shape), "exchanged in memory"),
        (dtypes.decode(dtypes.rounded(RIGHT, "bf16"), "bf16"), "rounded to bf16"),
        (dtypes.decode(dtypes.rounded(RIGHT, "f16"), "f16"), "rounded to f16"),
        (np.trunc(RIGHT * 2.0**7 / (e := 2.0 ** np.floor(np.log2(np.abs(RIGHT))))) * e / 2.0**7, "cut to bf16"),
        (np.full_like(RIGHT, 3.0), "all that is wrong is 3.0"),
        (np.where(RIGHT > 1, np.nan, RIGHT), "all that is wrong is NaN"),
    ],
)
def test_it_says_what_it_looks_like(actual: Any, words: str) -> None:
    assert words in looks(actual)


def test_what_is_only_near_zero_was_written() -> None:
    assert looks(np.full_like(RIGHT, 2.0), 5000 + RIGHT) == "all that is wrong is 2.0"


def test_a_missing_transpose_of_a_square() -> None:
    assert "last two axes are exchanged: " in looks(SQUARE.T, SQUARE)


@pytest.mark.parametrize(
    "actual", [RIGHT + RNG.normal(size=RIGHT.shape), RIGHT, RIGHT * 1.5, np.sort(RIGHT, axis=1), RIGHT + 1e-4]
)
def test_what_looks_like_nothing_is_not_guessed_at(actual: Any) -> None:
    assert looks(actual) == ""


def test_integers_booleans_and_what_has_no_axes() -> None:
    whole = np.arange(1, 25).reshape(4, 6)
    assert "what is wrong is 0" in looks(whole * 0, whole, "i32")
    assert (
        looks([False, False, True], [True, True, True], "bool")
        == "what is wrong is 0: nothing was written there, or to another buffer"
    )
    assert looks(2.0, 3.0) == ""
    assert "sign is turned" in looks(-whole, whole, "i64")


def test_no_numbers_at_all() -> None:
    assert looks([np.nan, np.inf], [np.nan, np.inf]) == ""
