"""The decision: its words, its symmetry, its quantiles, and how seldom it errs where its assumptions hold."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlir_matrix.statistics.decision import ERROR, LOOKS, Decision, decide, student_quantile

OPPOSITE = {"faster": "slower", "slower": "faster", "same": "same", "cannot tell": "cannot tell"}
times = st.floats(1, 1e9)
pairs = st.sampled_from(LOOKS).flatmap(lambda count: st.lists(st.tuples(times, times), min_size=count, max_size=count))


def drawn(
    rng: random.Random, count: int, *, ratio: float = 1.0, noise: float = 0.003, outliers: float = 0.01
) -> list[tuple[float, float]]:
    """Times as a busy machine gives them: most differ by ``noise``, and some are disturbed by up to a half."""

    def time(of: float) -> float:
        return of * rng.lognormvariate(0, noise) * (1 + rng.random() / 2 if rng.random() < outliers else 1)

    return [(time(1000), time(1000 * ratio)) for _ in range(count)]


def final(found: list[tuple[float, float]]) -> Decision:
    decision = decide(found, final=True)
    assert decision is not None
    return decision


# Published tables of Student's t.
@pytest.mark.parametrize(
    ("above", "freedom", "value"),
    [
        (0.0005, 1, 636.619),
        (0.05, 2, 2.920),
        (0.025, 3, 3.182),
        (0.001, 4, 7.173),
        (0.0005, 5, 6.869),
        (0.0005, 30, 3.646),
    ],
)
def test_quantiles_are_those_of_the_tables(above: float, freedom: int, value: float) -> None:
    assert student_quantile(above, freedom) == pytest.approx(value, abs=5e-4)


@given(pairs)
def test_swapped_sides_swap_the_words(found: list[tuple[float, float]]) -> None:
    there, back = final(found), final([(second, first) for first, second in found])
    assert back.word == OPPOSITE[there.word]
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


@given(pairs, st.sampled_from([2.0**-20, 0.5, 1024.0]))
def test_another_unit_of_time_changes_nothing(found: list[tuple[float, float]], unit: float) -> None:
    before, after = final(found), final([(first * unit, second * unit) for first, second in found])
    assert after.ratio == pytest.approx(before.ratio)
    # A bound may be at the floor to the last bit.
    assume(all(abs(abs(value) - 1.02) > 1e-6 and abs(value * 1.02 - 1) > 1e-6 for value in (before.low, before.high)))
    assert after.word == before.word


@given(pairs, st.randoms())
def test_the_order_of_pairs_changes_nothing(found: list[tuple[float, float]], rng: random.Random) -> None:
    shuffled = rng.sample(found, len(found))
    assert final(shuffled) == final(found)


@given(st.lists(times, min_size=LOOKS[0]))
def test_equal_pairs_are_the_same_however_many(found: list[float]) -> None:
    assert final([(time, time) for time in found]) == Decision(
        word="same", ratio=1.0, low=1.0, high=1.0, pairs=len(found)
    )  # fmt: skip


@given(st.integers(), st.sampled_from(LOOKS), st.integers(1, 40))
def test_more_equal_pairs_make_nothing_slower(seed: int, count: int, more: int) -> None:
    found = drawn(random.Random(seed), count, noise=0.05, outliers=0.2)
    assume(final(found).word != "slower")
    assert final([*found, *[(1.0, 1.0)] * more]).word != "slower"


def test_one_disturbed_pair_does_not_hide_a_difference() -> None:
    found = [(1000.0, 1050.0 + step) for step in range(6)]
    assert final([*found, (3000.0, 1050.0)]).word == "slower"


def test_pairs_decide_only_at_the_looks_and_few_pairs_never() -> None:
    clear = [(1.0, 2.0 + step / 1000) for step in range(30)]
    decided = [count for count in range(1, 31) if decide(clear[:count]) is not None]
    assert decided == list(LOOKS)
    assert final(clear[:6]).word == "cannot tell"
    assert final(clear[:1]).word == "cannot tell"
    assert final(clear[:7]).word == "slower"


def test_a_difference_at_the_floor_stays_undecided() -> None:
    found = drawn(random.Random(1), 30, ratio=1.02)
    assert decide(found) is None
    assert replace(final(found), low=0, high=0, ratio=0) == Decision(
        word="cannot tell", ratio=0, low=0, high=0, pairs=30
    )  # fmt: skip
    wider = decide(found, floor=0.05)
    assert wider is not None
    assert wider.word == "same"


@pytest.mark.parametrize("found", [[], [(1.0, 0.0)], [(-1.0, 1.0)]])
def test_what_is_no_pair_of_times_is_refused(found: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="positive times"):
        decide(found, final=True)


def test_errors_at_the_floor_are_as_rare_as_promised() -> None:
    rng, wrong, tries = random.Random(1), 0, 1000
    for _ in range(tries):
        found = drawn(rng, LOOKS[-1], ratio=1.02, outliers=0)
        decisions = filter(None, (decide(found[:look]) for look in LOOKS))
        wrong += next((decision.word for decision in decisions), "") == "slower"
    # Three standard deviations above what is expected at most.
    assert wrong <= tries * ERROR + 3 * (tries * ERROR) ** 0.5


def test_three_percent_are_found_among_disturbed_pairs() -> None:
    rng = random.Random(1)
    words = [final(drawn(rng, 15, ratio=1.03)).word for _ in range(200)]
    assert "same" not in words
    assert "faster" not in words
    assert words.count("slower") >= 185
