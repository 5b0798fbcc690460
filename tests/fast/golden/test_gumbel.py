"""From the shares that runs used to the factor on a layer's bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.golden.gumbel import (
    CONFIDENCE,
    LEAST,
    ErrorObservation,
    Gumbel,
    LayerCalibration,
    calibrate,
    fit,
    usual_gap,
    usual_reach,
)

SPREAD = [0.2 + 0.01 * (draw * 7 % 20) for draw in range(20)]


def runs(layer: str, test: str, values: Sequence[float], output: str = "y") -> list[ErrorObservation]:
    return [
        ErrorObservation(test=test, output=output, layer=layer, draw=draw, used=value)
        for draw, value in enumerate(values)
    ]


def single(*observations: Sequence[ErrorObservation], wanted: float = 1e-6) -> LayerCalibration:
    (found,) = calibrate([one for each in observations for one in each], wanted=wanted)
    return found


def test_each_layer_has_its_own_runs() -> None:
    first, second = calibrate([*runs("a", "t", SPREAD), *runs("b", "t", SPREAD[:10], "z")], wanted=1e-6)
    assert (first.layer, first.tests, first.runs) == ("a", 1, 20)
    assert (second.layer, second.tests, second.runs) == ("b", 1, 10)


def test_tests_of_the_same_arithmetic_are_one_sample() -> None:
    found = single(runs("a", "t1", SPREAD), runs("a", "t2", SPREAD), runs("a", "t3", SPREAD[::-1]))
    assert [sample.tests for sample in found.samples] == [("t1", "t2"), ("t3",)]
    assert (found.tests, found.runs, len(found.values)) == (3, 60, 40)
    alone = single(runs("a", "t1", SPREAD))
    assert found.factor == alone.factor, "what is counted twice must not look surer"


def test_the_worst_test_decides() -> None:
    alone = single(runs("a", "large", [2 * value for value in SPREAD]))
    found = single(runs("a", "small", SPREAD), runs("a", "large", [2 * value for value in SPREAD]))
    assert found.worst.tests == ("large",)
    assert found.factor == alone.factor
    assert found.rate(1.0) == alone.rate(1.0)


def test_shares_of_runs() -> None:
    found = single(runs("a", "t", SPREAD))
    assert found.values[-1] == max(SPREAD)
    assert found.share(0.5) == sorted(SPREAD)[9]
    assert found.share(0.99) == max(SPREAD)
    assert 0.13 < found.at_most < 0.15, "3/n, and a little less"


def test_bounds_follow_the_errors() -> None:
    small, large = single(runs("a", "t", SPREAD)), single(runs("a", "t", [3 * value for value in SPREAD]))
    assert small.factor is not None
    assert large.factor == pytest.approx(3 * small.factor)
    assert small.factor > max(SPREAD)
    assert small.rate(small.factor) < 1e-6 < small.rate(max(SPREAD))


def test_rarer_false_alarms_need_wider_bounds() -> None:
    factors = [single(runs("a", "t", SPREAD), wanted=wanted).factor for wanted in (1e-2, 1e-6, 1e-9)]
    assert factors == sorted(factors, key=float)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.0] * 20, "no error was seen"),
        ([0.4] * 20, "what t uses is the same in each draw"),
        ([0.1, 0.2] * 10, f"what t uses has 2 values only, {LEAST} are needed"),
    ],
)
def test_what_does_not_vary_proposes_nothing(values: list[float], words: str) -> None:
    found = single(runs("a", "t", values))
    assert words in found.why_not
    assert found.factor is None
    assert found.rate(1.0) == 0


def test_what_does_not_vary_stands_in_the_way_where_it_is_larger_only() -> None:
    assert single(runs("a", "t", SPREAD), runs("a", "fixed", [0.01] * 20)).factor
    found = single(runs("a", "t", [value / 10 for value in SPREAD]), runs("a", "fixed", [0.99] * 20))
    assert "what fixed uses is the same in each draw" in found.why_not


def test_what_is_not_distributed_like_maxima_proposes_nothing() -> None:
    found = single(
        runs("a", "t", [0.1 + 0.001 * draw for draw in range(5)] + [0.9 + 0.001 * draw for draw in range(25)])
    )
    assert "what t uses is not distributed like largest errors of sums" in found.why_not
    assert found.factor is None
    assert found.rate(1.0) > 0


def test_an_error_that_stands_apart_proposes_nothing() -> None:
    found = single(runs("a", "t", [*SPREAD[:-1], 0.95]))
    assert "in one draw t uses 0.95, in all others 0.39 at most" in found.why_not
    assert found.factor is None


@given(st.lists(st.floats(0, 1), min_size=10, max_size=40))
def test_no_proposal_is_below_what_was_seen(values: list[float]) -> None:
    found = single(runs("a", "t", values))
    assert found.factor is None or found.factor >= max(values)


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
    with pytest.raises(ValueError, match="three or more finite numbers"):
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
