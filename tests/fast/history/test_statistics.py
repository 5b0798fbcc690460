"""Statistics, compared with published values and with what chance gives."""

from __future__ import annotations

import random

import pytest

from mlir_matrix.history.trends import grows, is_larger, slope, wilson


def test_wilsons_interval() -> None:
    # Newcombe 1998, table I, method 3.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)


def test_steady_series_are_rarely_called_slower_or_growing() -> None:
    chance = random.Random(1)
    slower = growing = 0
    for _ in range(2000):
        series = [chance.lognormvariate(0, 0.3) for _ in range(25)]
        slower += is_larger(series[-5:], series[:-5]) < 0.01
        growing += grows(series) < 0.01
    assert slower <= 40
    assert growing <= 40


def test_series_that_change_are_found() -> None:
    assert is_larger([2.0] * 5, [1.0] * 5) < 0.01
    assert is_larger([1.0] * 5, [2.0] * 5) > 0.9
    assert grows(range(8)) < 0.001
    assert grows(range(8, 0, -1)) == 1.0


def test_equal_values_say_nothing() -> None:
    assert is_larger([1.0] * 5, [1.0] * 20) == 1.0
    assert grows([1.0] * 30) == 1.0


def test_an_outlier_moves_no_slope() -> None:
    assert slope([0, 1, 2, 100, 4, 5, 6]) == 1
