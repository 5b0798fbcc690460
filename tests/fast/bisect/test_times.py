"""Levels of times, on axes with simulated noise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.bisect.outputs import FEWEST, time_levels


def samples(rng: random.Random, seconds: float, noise: float, count: int) -> list[float]:
    """Times of one point: noise makes them longer; one in ten runs is disturbed."""
    found = [seconds * (1 + abs(rng.gauss(0, noise))) for _ in range(count)]
    return [each * rng.uniform(1, 3) if rng.random() < 0.1 else each for each in found]


def levels(times: list[list[float]]) -> list[int]:
    """Return the points where a level begins."""
    found = time_levels(dict(enumerate(times)))
    return [point for point in range(1, len(times)) if found[point] != found[point - 1]]


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_noise_is_rarely_a_level(noise: float) -> None:
    rng = random.Random(7)
    wrong = sum(bool(levels([samples(rng, 1e-3, noise, 9) for _ in range(9)])) for _ in range(200))
    assert wrong <= 4


@pytest.mark.parametrize("steps", [[1, 1, 1, 1.3, 1.3, 1.3], [1, 1, 1.3, 1, 1], [1.3, 1, 1, 1, 1.6, 1.6]])
def test_what_exceeds_noise_is_found_where_it_is(steps: list[float]) -> None:
    """Also a release that is slow alone."""
    rng = random.Random(7)
    expected = [point for point in range(1, len(steps)) if steps[point] != steps[point - 1]]
    right = sum(levels([samples(rng, 1e-6 * each, 0.03, 9) for each in steps]) == expected for _ in range(200))
    assert right >= 190


@given(st.lists(st.lists(st.floats(1e-9, 1e3), min_size=FEWEST, max_size=9), min_size=1, max_size=9))
def test_the_unit_plays_no_part(times: list[list[float]]) -> None:
    assert levels(times) == levels([[value * 4 for value in each] for each in times])


def test_few_samples_tell_nothing() -> None:
    assert list(time_levels({0: [1.0] * FEWEST, 1: [2.0]})) == [0]
    assert time_levels({}) == {}


def test_words() -> None:
    assert [str(each) for each in time_levels({0: [2e-6] * 5, 1: [0.25] * 5}).values()] == [
        "pass, 2 µs",
        "pass, 250 ms",
    ]
