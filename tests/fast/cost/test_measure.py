"""Sampling by looks, and the confirmation of an alarm."""

from __future__ import annotations

import random
from collections.abc import Callable

from mlir_matrix.cost.measure import Sample, measure


def source(rng: random.Random, ratio: Callable[[int], float]) -> tuple[Sample, list[int]]:
    """Pairs whose ratio depends on how many there were before, and the numbers that were asked for."""
    asked: list[int] = []

    def sample(count: int) -> list[tuple[float, float]]:
        before = sum(asked)
        asked.append(count)
        return [(100.0, 100 * ratio(before + each) * rng.lognormvariate(0, 0.003)) for each in range(count)]

    return sample, asked


def test_equal_programs_need_few_pairs_and_no_confirmation() -> None:
    sample, asked = source(random.Random(1), lambda _: 1.0)
    decision = measure(sample)
    assert (decision.word, decision.pairs, asked) == ("same", 7, [7])


def test_an_alarm_is_confirmed_by_fresh_pairs() -> None:
    sample, asked = source(random.Random(1), lambda _: 1.5)
    decision = measure(sample)
    assert (decision.word, decision.pairs, asked) == ("slower", 14, [7, 7])
    assert decision.low < 1.5 < decision.high


def test_an_alarm_that_does_not_repeat_is_none() -> None:
    sample, asked = source(random.Random(1), lambda before: 0.5 if before < 7 else 1.0)
    decision = measure(sample)
    assert (decision.word, decision.pairs, asked) == ("cannot tell", 14, [7, 7])
    assert decision.low < 1 < decision.high


def test_the_confirmation_is_stricter_in_a_large_suite() -> None:
    alone, _ = source(random.Random(1), lambda _: 1.03)
    among_many, _ = source(random.Random(1), lambda _: 1.03)
    few, many = measure(alone), measure(among_many, comparisons=16_000)
    assert few.word == many.word == "slower"
    assert few.pairs < many.pairs


def test_the_budget_ends_what_cannot_be_decided() -> None:
    sample, asked = source(random.Random(1), lambda _: 1.02)
    decision = measure(sample, budget_pairs=40)
    assert (decision.word, decision.pairs, asked) == ("cannot tell", 20, [7, 3, 5, 5])


def test_a_budget_below_the_first_look_decides_nothing() -> None:
    sample, asked = source(random.Random(1), lambda _: 2.0)
    assert measure(sample, budget_pairs=8).word == "cannot tell"
    assert asked == [4]
