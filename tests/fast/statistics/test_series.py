"""Statistics, compared with published values and with what chance gives."""

from __future__ import annotations

import random

import pytest

from mlir_matrix.statistics.series import grows, ratio_interval, slope, wilson


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
        slower += ratio_interval(series[-5:], series[:-5], 0.01)[1] > 1
        growing += grows(series) < 0.01
    assert slower <= 40
    assert growing <= 40


def test_series_that_change_are_found() -> None:
    assert ratio_interval([2.0] * 5, [1.0] * 5, 0.01) == (2, 2, 2)
    middle, low, high = ratio_interval([18, 20, 21, 22, 19], [9, 11, 10, 10, 30, 10], 0.01)
    assert middle == pytest.approx(2, abs=0.1)
    assert 0.6 <= low < 1.8
    assert 2.1 < high < 2.5
    assert grows(range(8)) < 0.001
    assert grows(range(8, 0, -1)) == 1.0


def test_equal_values_say_nothing() -> None:
    assert ratio_interval([1.0] * 5, [1.0] * 20, 0.01) == (1, 1, 1)
    assert grows([1.0] * 30) == 1.0


def test_an_outlier_moves_no_slope() -> None:
    assert slope([0, 1, 2, 100, 4, 5, 6]) == 1
