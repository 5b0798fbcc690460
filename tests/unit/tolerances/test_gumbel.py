"""Maxima of random numbers: what is fitted is what they were drawn from, and limits are as sure as they say."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.tolerances.gumbel import CONFIDENCE, Gumbel, fit, usual_gap, usual_reach


def drawn(size: int, seed: int, location: float = 0.0, scale: float = 1.0) -> list[float]:
    numbers = random.Random(f"test {seed}")
    return [location - scale * math.log(-math.log(numbers.random())) for _ in range(size)]


def likelihood(sample: Sequence[float], location: float, scale: float) -> float:
    reduced = [(value - location) / scale for value in sample]
    return -len(sample) * math.log(scale) - math.fsum(value + math.exp(-value) for value in reduced)


def test_a_large_sample_gives_back_what_it_was_drawn_from() -> None:
    found = fit(drawn(20_000, 1, location=3.0, scale=0.25))
    assert found.location == pytest.approx(3.0, abs=0.01)
    assert found.scale == pytest.approx(0.25, rel=0.02)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=30).filter(lambda sample: max(sample) - min(sample) > 1e-3))
def test_nothing_near_it_is_more_likely(sample: list[float]) -> None:
    found = fit(sample)
    best = likelihood(sample, found.location, found.scale)
    for shift, stretch in ((0.01, 1), (-0.01, 1), (0, 1.01), (0, 1 / 1.01)):
        assert likelihood(sample, found.location + shift * found.scale, found.scale * stretch) < best + 1e-6 * abs(best)


@given(st.floats(1e-12, 0.3), st.floats(-10, 10), st.floats(1e-3, 10))
def test_quantile_and_tail_are_each_others_reverse(rate: float, location: float, scale: float) -> None:
    found = Gumbel(location, scale, 20)
    assert found.tail(found.quantile(rate)) == pytest.approx(rate, rel=1e-6)
    assert found.quantile(rate / 2) > found.quantile(rate)


def test_far_below_every_maximum_exceeds_it_and_far_above_none() -> None:
    found = Gumbel(1.0, 0.01, 20)
    assert found.tail(-1e9) == 1.0
    assert found.tail(1e9) == 0.0


@pytest.mark.parametrize(("size", "rate"), [(10, 1e-2), (10, 1e-6), (20, 1e-6), (60, 1e-9)])
def test_upper_limits_hold_as_often_as_they_say(size: int, rate: float) -> None:
    """The true quantile is below the limit in 95 of 100 samples; 1,000 of them leave 3 standard errors of 0.7 %."""
    true = Gumbel(0.0, 1.0, size).quantile(rate)
    held = sum(fit(drawn(size, seed)).upper(rate) >= true for seed in range(1000))
    assert held / 1000 == pytest.approx(CONFIDENCE, abs=0.025)


def test_limits_do_not_change_from_call_to_call_and_scale_with_the_sample() -> None:
    sample = drawn(20, 5)
    limit = fit(sample).upper(1e-6)
    assert fit(list(sample)).upper(1e-6) == limit
    assert fit([2 * value + 1 for value in sample]).upper(1e-6) == pytest.approx(2 * limit + 1)


@pytest.mark.parametrize("sample", [[1.0, 2.0], [3.0] * 20, [1.0, 2.0, math.inf]])
def test_what_tells_nothing_is_refused(sample: list[float]) -> None:
    with pytest.raises(ValueError, match="three finite numbers"):
        fit(sample)


def test_the_gap_tells_a_good_fit_from_a_bad_one() -> None:
    sample = drawn(2000, 7)
    assert fit(sample).gap(sample) < 0.03
    assert Gumbel(0.0, 1.0, 2000).gap([value + 1 for value in sample]) > 0.2


@pytest.mark.parametrize("size", [10, 20, 50])
def test_one_sample_in_a_hundred_is_unusual(size: int) -> None:
    samples = [drawn(size, seed) for seed in range(1000)]
    unusual = sum(fit(sample).gap(sample) > usual_gap(size) for sample in samples)
    assert unusual <= 20
    unusual = sum(fit(sample).reach(sample) > usual_reach(size) for sample in samples)
    assert unusual <= 20


def test_one_number_that_stands_apart_is_unusual() -> None:
    sample = drawn(20, 4)
    assert fit(sample).reach(sample) < usual_reach(20)
    sample[7] = 20.0
    assert fit(sample).reach(sample) > usual_reach(20)


def test_errors_that_are_bounded_are_unusual() -> None:
    """Most of them near what they cannot exceed."""
    sample = [1 - min(1.0, numbers) ** 4 for numbers in map(abs, drawn(40, 3))]
    assert fit(sample).gap(sample) > usual_gap(40)
