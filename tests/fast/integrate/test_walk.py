"""The furthest green commit and the culprits, in histories with merges, commits that cannot be built, and several breaks."""

from __future__ import annotations

from math import log2

import pytest

from mlir_matrix.integrate.walk import Walk, by_halves
from support.fake_history import FakeHistory, a_line, make_monorepo


def found_culprits(walk: Walk) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for each in walk.breaks:
        for test in each.tests:
            found.setdefault(test, set()).update(each.candidates)
    return found


def test_walk_takes_the_newest_green_commit_with_two_builds() -> None:
    history = FakeHistory(a_line(2000), {})
    walk = history.walk()
    assert walk.run() == 1999
    assert len(history.probed) == 2
    assert not walk.breaks


def test_walk_finds_each_culprit_and_stops_before_the_first() -> None:
    history = FakeHistory(a_line(2000), {700: {"a": "wrong"}, 1400: {"b": "crash"}})
    walk = history.walk()
    assert walk.run() == 699
    assert found_culprits(walk) == {"a": {700}, "b": {1400}}
    assert len(history.probed) <= 2 * (log2(2000) + 2)


def test_walk_finds_a_break_that_hides_an_earlier_one() -> None:
    history = FakeHistory(a_line(2000), {700: {"a": "wrong"}, 1400: {"a": "crash"}})
    walk = history.walk()
    assert walk.run() == 699
    assert {(each.behaviour, each.candidates) for each in walk.breaks} == {("wrong", (700,)), ("crash", (1400,))}


def test_walk_is_stopped_by_what_was_mended_later() -> None:
    """Between 500 and 900, another test is broken; the newest commit does not show that."""
    history = FakeHistory(a_line(2000), {500: {"a": "wrong"}, 899: {"b": "wrong"}}, {900: frozenset("a")})
    walk = history.walk()
    assert walk.run() == 499
    assert found_culprits(walk) == {"a": {500}, "b": {899}}


def test_walk_ignores_what_is_broken_at_the_start() -> None:
    history = FakeHistory(a_line(100), {0: {"a": "wrong"}})
    walk = history.walk()
    assert walk.run() == 99
    assert walk.before == {"a"}


def test_walk_names_what_broke_the_build() -> None:
    history = FakeHistory(a_line(1000), {}, unbuildable=frozenset(range(300, 1000)))
    walk = history.walk()
    assert walk.run() == 299
    (only,) = walk.breaks
    assert (only.kind, only.candidates, only.behaviour) == ("build", (300,), "no")
    assert len(history.probed) <= log2(1000) + 5


def test_walk_takes_the_commit_before_a_newest_one_that_cannot_be_built() -> None:
    history = FakeHistory(a_line(1000), {}, unbuildable=frozenset({999}))
    walk = history.walk()
    assert walk.run() == 998
    assert [each.candidates for each in walk.breaks] == [(999,)]
    assert len(history.probed) == 3


def test_walk_ends_in_time_with_the_newest_green_commit_so_far() -> None:
    history = FakeHistory(a_line(1000), {900: {"a": "wrong"}}, most=4)
    walk = history.walk()
    assert walk.run() in {point for point in history.probed if point < 900}
    assert walk.late
    assert len(history.probed) == 4


def test_walk_goes_over_commits_that_have_the_start_in_their_history() -> None:
    """The start is on a branch; the line that it was merged into does not have it before the merge."""
    history = FakeHistory([(), (0,), (0,), (2, 1), (3,)], {3: {"a": "wrong"}})
    walk = history.walk(good=1)
    assert walk.line == [1, 3, 4]
    assert walk.run() == 1


@pytest.mark.parametrize(
    ("count", "wanted"),
    [(1, [0]), (2, [0, 1]), (3, [0, 2, 1]), (6, [0, 5, 2, 1, 3, 4]), (9, [0, 8, 4, 2, 6, 1, 3, 5, 7])],
)
def test_prefetch_takes_the_ends_the_middle_and_the_quarters(count: int, wanted: list[int]) -> None:
    assert list(by_halves(range(count))) == wanted


@pytest.mark.parametrize("seed", range(25))
def test_walk_in_a_monorepo(seed: int) -> None:
    """Merges, 15 % that cannot be built, and two culprits: each is found, and all of the line before the first is offered."""
    made = make_monorepo(seed, 2000, 0.15)
    walk = made.history.walk()
    best = walk.run()
    for culprit in made.shown:
        assert any(culprit in each.candidates for each in walk.breaks), (culprit, walk.breaks)
    assert best == made.furthest(walk.line)
    assert len(made.history.probed) <= 2 * (log2(2000) + 2) * 1.6 + 8
