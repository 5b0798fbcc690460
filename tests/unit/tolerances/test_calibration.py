"""From the shares that runs used to the factor on a layer's bounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.tolerances.calibration import LEAST, Calibration, Observation, calibrate

SPREAD = [0.2 + 0.01 * (draw * 7 % 20) for draw in range(20)]


def runs(layer: str, test: str, values: Sequence[float], output: str = "y") -> list[Observation]:
    return [
        Observation(test=test, output=output, layer=layer, draw=draw, used=value) for draw, value in enumerate(values)
    ]


def single(*observations: Sequence[Observation], wanted: float = 1e-6) -> Calibration:
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
