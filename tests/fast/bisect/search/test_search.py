"""The search, against a posterior and an expected information that are computed for each culprit on its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import ceil, log2, prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.search.history import History, LinearHistory, history
from mlir_matrix.bisect.search.search import FLAKY, ContradictionError, ProbeVerdict, Rates, Search

BAD, GOOD, CANNOT_TELL = ProbeVerdict.BAD, ProbeVerdict.GOOD, ProbeVerdict.CANNOT_TELL
Parents = Sequence[Sequence[int]]
Observed = list[tuple[int, ProbeVerdict]]
RATES = [Rates(), FLAKY, Rates(0.5, 0.5, 2), Rates(0.5, 1, 1), Rates(0, 2, 1)]


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> Parents:
    """Histories with up to three parents a point and several roots; often lines."""
    count = draw(st.integers(1, most))
    if draw(st.booleans()):
        return LinearHistory(count).parents
    return [
        draw(st.lists(st.integers(0, point - 1), max_size=min(point, 3), unique=True)) if point else []
        for point in range(count)
    ]


def ancestors(parents: Parents, point: int) -> set[int]:
    found, waiting = {point}, [point]
    while waiting:
        new = set(parents[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def likelihood(rates: Rates, bad: int, good: int, early_bad: int) -> Fraction:
    """The probability of observations: of bad points, and of those before the culprit."""
    a, b, sure = map(Fraction, (rates.alpha, rates.beta, rates.deterministic))
    rising = prod((a + i for i in range(bad)), start=Fraction(1)) * prod(
        (b + i for i in range(good)), start=Fraction(1)
    )
    unknown = rising / prod((a + b + i for i in range(bad + good)), start=Fraction(1))
    return (sure * (not good) + (1 - sure) * unknown) * (not early_bad)


def joint(parents: Parents, weights: Sequence[float], rates: Rates, observed: Observed) -> list[Fraction]:
    """For each culprit among the ancestors of the last point: its weight times the probability of the observations."""
    found = []
    for culprit, weight in enumerate(weights):
        counts = [0, 0, 0, 0]
        for point, verdict in observed:
            counts[2 * (culprit not in ancestors(parents, point)) + (verdict is GOOD)] += 1
        possible = culprit in ancestors(parents, len(parents) - 1)
        found.append(Fraction(weight) * likelihood(rates, *counts[:3]) * possible)
    return found


def information(parents: Parents, weights: Sequence[float], rates: Rates, observed: Observed, point: int) -> float:
    """The bits that a probe of a point is expected to give about the culprit."""

    def entropy(values: Sequence[Fraction]) -> float:
        return -sum(float(value / sum(values)) * log2(value / sum(values)) for value in values if value)

    now = joint(parents, weights, rates, observed)
    after = [joint(parents, weights, rates, [*observed, (point, verdict)]) for verdict in (BAD, GOOD)]
    return entropy(now) - sum(float(sum(each) / sum(now)) * entropy(each) for each in after if sum(each))


def situations(most: int = 9) -> st.SearchStrategy[tuple[Parents, list[int], Rates, Observed]]:
    def of(parents: Parents) -> st.SearchStrategy[tuple[Parents, list[int], Rates, Observed]]:
        points = st.integers(0, len(parents) - 1)
        return st.tuples(
            st.just(parents),
            st.lists(st.integers(0, 5), min_size=len(parents), max_size=len(parents)),
            st.sampled_from(RATES),
            st.lists(st.tuples(points, st.sampled_from([BAD, GOOD])), max_size=8),
        )

    return graphs(most).flatmap(of)


def searched(
    parents: Parents, weights: Sequence[float], rates: Rates, observed: Iterable[tuple[int, ProbeVerdict]]
) -> Search:
    search = Search(history(parents), weights, rates=rates)
    for point, verdict in observed:
        search.observe(point, verdict)
    return search


@given(situations(), st.randoms(use_true_random=False))
def test_posterior_and_its_order(situation: tuple[Parents, list[int], Rates, Observed], chance: random.Random) -> None:
    parents, weights, rates, observed = situation
    expected = joint(parents, weights, rates, observed)
    if not sum(expected):
        with pytest.raises(UsageError):
            searched(parents, weights, rates, observed)
        return
    search = searched(parents, weights, rates, observed)
    assert search.posterior() == pytest.approx([float(each / sum(expected)) for each in expected], abs=1e-8)
    shuffled = chance.sample(observed, len(observed))
    again = searched(parents, weights, rates, shuffled)
    assert again.posterior() == pytest.approx(search.posterior(), abs=1e-12)
    assert again.next(3) == search.next(3)
    assert again.answer().candidates == search.answer().candidates


@given(situations(7))
def test_flaky_searches_probe_where_most_is_learnt(situation: tuple[Parents, list[int], Rates, Observed]) -> None:
    parents, weights, rates, observed = situation
    assume(sum(joint(parents, weights, rates, observed)))
    search = searched(parents, weights, rates, observed)
    assume(search.flaky)
    found = search.next()
    gains = [information(parents, weights, rates, observed, point) for point in range(len(parents))]
    possible = [gain for gain, share in zip(gains, search.posterior(), strict=True) if share > 1e-6]
    if found and max(search.posterior()) < 0.975:
        assert gains[found[0]] >= max(possible) - 1e-6


def run(search: Search, verdict: Callable[[int], ProbeVerdict], count: int = 1, most: int = 2000) -> int:
    """Search to the end; the number of rounds."""
    for number in range(most):
        points = search.next(count)
        if not points:
            return number
        for point in points:
            search.observe(point, verdict(point))
    raise AssertionError(f"not done after {most} rounds")


@given(graphs(12), st.data(), st.integers(1, 4), st.sampled_from([Rates(), Rates(deterministic=1.0)]))
def test_certain_verdicts_leave_what_no_probe_can_tell_apart(
    parents: Parents, data: st.DataObject, count: int, rates: Rates
) -> None:
    bad = len(parents) - 1
    candidates = sorted(ancestors(parents, bad))
    culprit = data.draw(st.sampled_from(candidates))
    skipped = data.draw(st.sets(st.integers(0, bad - 1))) if bad else set[int]()
    search = Search(history(parents), rates=rates)

    def verdict(point: int) -> ProbeVerdict:
        return CANNOT_TELL if point in skipped else BAD if culprit in ancestors(parents, point) else GOOD

    run(search, verdict, count)
    answer = search.answer()
    told = [point for point in candidates if point not in skipped]
    alike = [
        other
        for other in candidates
        if all((other in ancestors(parents, point)) == (culprit in ancestors(parents, point)) for point in told)
    ]
    assert culprit in answer.candidates
    # A skipped point beside the candidates can tell them apart only by a descendant that is no candidate any more.
    assert set(alike) <= set(answer.candidates)
    if not skipped:
        assert answer.candidates == [culprit]


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 9, 64, 100])
def test_rounds_on_a_line(jobs: int, count: int) -> None:
    most = 1
    while (jobs + 1) ** (most - 1) < count:
        most += 1
    for culprit in range(count):
        search = Search(LinearHistory(count))
        search.observe(count - 1, BAD)
        assert run(search, lambda point, culprit=culprit: BAD if point >= culprit else GOOD, jobs) <= most
        assert search.answer().candidates == [culprit]
        assert search.answer().confidence >= 0.95


def test_the_ends_limit_the_candidates() -> None:
    # 0 – 1 – 2 – 5 – 6, and 0 – 3 – 4 – 5.
    parents = [(), (0,), (1,), (0,), (3,), (2, 4), (5,)]
    search = Search(history(parents), good=[2], bad=5)
    assert [point for point, share in enumerate(search.posterior()) if share] == [3, 4, 5]
    with pytest.raises(UsageError, match="no point between"):
        Search(history(parents), good=[6])
    with pytest.raises(UsageError, match="no point between"):
        Search(history(parents), [1, 1, 1, 0, 0, 0, 1], good=[2], bad=5)


def test_a_change_is_probed_again_on_both_sides() -> None:
    search = Search(LinearHistory(8), rates=Rates(), repeats=2)
    asked: list[int] = []
    while points := search.next():
        asked += points
        search.observe(points[0], BAD if points[0] >= 5 else GOOD)
    assert (asked[:3], sorted(asked[3:])) == ([3, 5, 4], [4, 5])
    assert Search(LinearHistory(8), rates=Rates(deterministic=1.0)).next() == [3]


def test_a_contradiction_makes_the_test_flaky() -> None:
    search = Search(LinearHistory(8))
    observations = [(3, GOOD), (5, BAD), (4, GOOD)]
    for point, verdict in observations:
        search.observe(point, verdict)
    assert (search.flaky, search.answer().candidates) == (False, [5])
    assert search.next()
    search.observe(4, BAD)
    assert search.flaky
    assert search.next()
    assert sorted(search.answer().candidates) == [0, 1, 2, 3, 4]
    certain = Search(LinearHistory(8), rates=Rates(deterministic=1.0))
    certain.observe(4, BAD)
    with pytest.raises(ContradictionError, match="point 5 is good, which no single change") as raised:
        certain.observe(5, GOOD)
    assert (raised.value.point, raised.value.verdict) == (5, GOOD)
    # What was refused has no effect.
    assert certain.answer().candidates == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("rate", "rates", "jobs"), [(0.2, FLAKY, 1), (0.6, FLAKY, 1), (0.9, FLAKY, 1), (0.6, Rates(), 4)]
)
def test_flaky_tests(rate: float, rates: Rates, jobs: int) -> None:
    chance, right = random.Random(7), 0
    for _ in range(40):
        culprit = chance.randrange(200)
        search = Search(LinearHistory(200), rates=rates)
        run(search, lambda point, culprit=culprit: BAD if point >= culprit and chance.random() < rate else GOOD, jobs)
        answer = search.answer()
        assert answer.confidence >= 0.95
        right += answer.candidates == [culprit]
    assert right >= 38


def test_rounds_of_several_runs_take_less_time_than_one_run_after_the_other() -> None:
    def flaky(search: Search, count: int) -> int:
        chance = random.Random(3)
        return run(search, lambda point: BAD if point >= 70 and chance.random() < 0.5 else GOOD, count)

    found = [sum(flaky(Search(LinearHistory(size), rates=FLAKY), count) for size in range(90, 110)) for count in (1, 4)]
    assert found[1] * 2.5 < found[0]


def test_a_cluster_that_cannot_be_probed_costs_few_rounds() -> None:
    for culprit in (2_000, 5_100, 5_399, 5_400, 9_000):
        search = Search(LinearHistory(10_000), rates=Rates(deterministic=1.0))
        shown = [
            CANNOT_TELL if 5_000 <= point < 5_400 else BAD if point >= culprit else GOOD for point in range(10_000)
        ]
        rounds = run(search, shown.__getitem__)
        assert rounds < 50
        answer = search.answer()
        assert sorted(answer.candidates) == (list(range(5_000, 5_401)) if 5_000 <= culprit <= 5_400 else [culprit])


def test_what_cannot_be_probed_keeps_its_probability() -> None:
    search = Search(LinearHistory(4), [1, 4, 2, 1], rates=Rates(deterministic=1.0))
    search.observe(1, CANNOT_TELL)
    search.observe(0, GOOD)
    search.observe(2, BAD)
    assert search.next() == []
    answer = search.answer()
    assert (answer.candidates, answer.confidence) == ([1, 2], pytest.approx(1))
    assert search.posterior() == pytest.approx([0, 2 / 3, 1 / 3, 0])


def test_weights_move_the_first_probe() -> None:
    assert Search(LinearHistory(100)).next() == [49]
    assert Search(LinearHistory(100), [1] * 90 + [100] * 10).next() == [94]
    assert Search(LinearHistory(100)).next(3) == [74, 49, 24]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Search(LinearHistory(3), [1, 1]), "expected 3 weights"),
        (lambda: Search(LinearHistory(3), [1, -1, 1]), "not negative"),
        (lambda: Search(LinearHistory(3), [0, 0, 0]), "no point"),
        (lambda: Search(LinearHistory(3), confidence=1.5), r"confidence 1\.5"),
        (lambda: Search(LinearHistory(3), bad=3), "unknown point 3; expected one from 0 to 2"),
        (lambda: Search(LinearHistory(3)).observe(-1, GOOD), "unknown point -1"),
        (lambda: history([(), (2,), ()]), r"point 1 has the parents \[2\]"),
        (lambda: Rates(deterministic=2), "expected probabilities"),
    ],
)
def test_bad_input(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@given(graphs(14), st.data())
def test_sums_over_ancestors(parents: Parents, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, 9), min_size=len(parents), max_size=len(parents)))
    found: History[range] | History[int] = history(parents)
    assert list(found.sums(values)) == [
        sum(values[each] for each in ancestors(parents, point)) for point in range(len(parents))
    ]
    assert len(found) == len(parents)
    point = data.draw(st.integers(0, len(parents) - 1))
    assert list(found.listed(found.between([], point))) == sorted(ancestors(parents, point))  # type: ignore[arg-type]


def test_rounds_of_searches_in_graphs() -> None:
    chance = random.Random(2)
    parents: list[tuple[int, ...]] = [()]
    tip = 0
    while len(parents) < 400:
        branch = max(0, tip - chance.randrange(20))
        for _ in range(chance.randrange(6)):
            parents.append((branch,))
            branch = len(parents) - 1
        parents.append((tip, branch) if branch != tip else (tip,))
        tip = len(parents) - 1
    found = history(parents)
    for jobs, extra in ((1, 1), (4, 2)):
        bound = ceil(log2(len(parents)) / log2(jobs + 1)) + extra
        for culprit in chance.sample(range(len(parents)), 20):
            search = Search(found)
            search.observe(len(parents) - 1, BAD)
            rounds = run(
                search, lambda point, culprit=culprit: BAD if culprit in ancestors(parents, point) else GOOD, jobs
            )
            assert rounds <= bound + 1
            assert search.answer().candidates == [culprit]
