"""Driving probes: scans and searches of simulated axes, whose answers are known."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.driver import SearchDriver, Strategy
from mlir_matrix.bisect.observations import Observation
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.results.signature import PASS, Signature
from support.simulated import Behaviour, Simulated


def axis(count: int, **more: object) -> Axis:
    return Axis(component="llvm", names=tuple(f"{number}.0" for number in range(count)), **more)  # type: ignore[arg-type]


def drive(
    line: Axis,
    behaviour: Behaviour,
    tests: Sequence[str] = ("t",),
    takes: Callable[[int], float] = lambda _: 0.1,
    **how: object,
) -> SearchDriver:
    strategy = Strategy(**{"scan": False, "jobs": 2, "repeats": 1, **how})  # type: ignore[arg-type]
    driver = SearchDriver(axis=line, prober=Simulated(tests, behaviour, takes=takes), strategy=strategy)
    driver.run()
    return driver


def changed(driver: SearchDriver, test: str = "t") -> list[tuple[int, int]]:
    return [(each.change.before, each.change.after) for each in driver.changes(test)]


def runs(driver: SearchDriver) -> int:
    prober = driver.prober
    return sum(
        len(point.observations) for test in prober.observations.tests for point in prober.observations.points(test)
    )


def words(text: str) -> Behaviour:
    """Behaviours by letters: p passes, l and c fail, ? tells nothing."""
    outcomes = {"p": "pass", "l": "lower-failed", "c": "codegen-failed", "?": "infra-error"}
    return lambda _test, point, _number: outcomes[text[point]]


def test_a_scan_finds_every_change() -> None:
    driver = drive(axis(9), words("pplpp?ccc"), scan=True, repeats=0)
    assert changed(driver) == [(1, 2), (2, 3), (4, 6)]
    assert runs(driver) == 9
    assert changed(drive(axis(9), words("pplpp?ccc"), scan=True, repeats=0, find="fixed")) == [(2, 3)]


def test_a_scan_that_repeats_sees_what_is_flaky() -> None:
    def at_times(_test: str, point: int, number: int) -> str:
        return "run-failed" if point >= 3 and number % 2 else "pass"

    assert changed(drive(axis(6), at_times, scan=True, repeats=0)) == []
    driver = drive(axis(6), at_times, scan=True, repeats=1)
    assert changed(driver) == [(2, 3)]
    point = driver.prober.observations.at("t", 4)
    assert point is not None
    assert sorted(point.behaviours.values()) == [1, 1]


@pytest.mark.parametrize("seed", range(25))
def test_a_search_finds_the_culprit_of_each_test(seed: int) -> None:
    """Three tests of one axis, some points of which cannot be probed; the ends are given."""
    random.seed(seed)
    count = random.randrange(40, 400)
    culprits = {test: random.randrange(1, count - 1) for test in "abc"}
    lost = {point for point in range(count) if random.random() < 0.1} - {0, count - 1}

    def behaviour(test: str, point: int, _number: int) -> str:
        return "infra-error" if point in lost else "lower-failed" if point >= culprits[test] else "pass"

    driver = drive(axis(count, good=0, bad=count - 1), behaviour, tests=tuple(culprits))
    for test, culprit in culprits.items():
        answer = driver.found[test].answer
        possible = [culprit]
        while possible[0] - 1 in lost:
            possible.insert(0, possible[0] - 1)
        while possible[-1] in lost:
            possible.append(possible[-1] + 1)
        assert sorted(answer.candidates) == possible
    points = {point.index for test in culprits for point in driver.prober.observations.points(test)}
    assert len(points) < 50


def test_ends_are_found_when_they_are_not_given() -> None:
    driver = drive(axis(1000), lambda _test, point, _number: "lower-failed" if 400 <= point < 970 else "pass")
    assert driver.found["t"].answer.candidates == [970], "the newest change"
    driver = drive(
        axis(1000), lambda _test, point, _number: "lower-failed" if 400 <= point < 970 else "pass", find="broke"
    )
    assert driver.found["t"].answer.candidates == [400]
    driver = drive(axis(1000, good=10), lambda _test, point, _number: "lower-failed" if point >= 700 else "pass")
    assert driver.found["t"].answer.candidates == [700]
    assert runs(driver) < 30


def test_the_newest_that_tells_something_is_an_end() -> None:
    driver = drive(
        axis(100), lambda _test, point, _n: "infra-error" if point > 95 else ("pass", "run-failed")[point > 50]
    )
    assert driver.found["t"].answer.candidates == [51]


def test_a_third_behaviour_says_nothing_about_the_first_two() -> None:
    """A clean error at some points is another bug than the crash that is looked for."""

    def behaviour(_test: str, point: int, _number: int) -> str:
        return "codegen-failed" if 30 <= point < 40 else "lower-failed" if point >= 40 else "pass"

    driver = drive(axis(100, good=0, bad=99), behaviour)
    assert set(driver.found["t"].answer.candidates) == set(range(30, 41))


def test_a_flaky_test_is_searched_by_probabilities() -> None:
    right = 0
    for seed in range(20):
        random.seed(seed)
        culprit = random.randrange(1, 63)

        def flaky(_test: str, point: int, _number: int, culprit: int = culprit) -> str:
            return "run-failed" if point >= culprit and random.random() < 0.5 else "pass"

        driver = drive(axis(64, good=0, bad=63), flaky, repeats=8)
        right += driver.found["t"].answer.candidates[0] == culprit
    assert right >= 18


def seconds(driver: SearchDriver) -> float:
    """What all runs took."""
    return sum(seen.result.duration_s for seen in driver.prober.kept)  # type: ignore[attr-defined]


def outcomes(driver: SearchDriver) -> list[str]:
    return [
        "/".join(each.result.outcome for each in point.observations) for point in driver.prober.observations.points("t")
    ]


def passes(_test: str, _point: int, _number: int) -> str:
    return "pass"


def test_a_hang_is_seen_in_full_only_where_it_decides() -> None:
    """Of six releases that hang, the first and the last one wait for the whole limit, two minutes."""
    hang = drive(axis(9), passes, takes=lambda point: 1e9 if 2 <= point < 8 else 0.1, scan=True, repeats=0)
    assert changed(hang) == [(1, 2), (7, 8)]
    assert outcomes(hang) == ["pass"] * 2 + ["timed-out"] * 6 + ["pass"]
    assert seconds(hang) < 6 * 20 + 2 * 120 + 1
    limits = [each.limit_s for point in hang.prober.observations.points("t") for each in point.observations]
    assert [limits[2], limits[7]] == [120, 120]
    # A sane release that takes 5 s: others get 50.
    slower = drive(axis(9), passes, takes=lambda point: 1e9 if 2 <= point < 8 else 5, scan=True, repeats=0)
    assert changed(slower) == [(1, 2), (7, 8)]
    assert {each.limit_s for point in slower.prober.observations.points("t")[3:7] for each in point.observations} == {
        50
    }


@pytest.mark.parametrize("slow", [{4}, {0}, {8}, {3, 4, 5}, set(range(9))])
def test_what_is_slow_does_not_hang(slow: set[int]) -> None:
    """It is run in full: a hang there would be a change."""
    driver = drive(axis(9), passes, takes=lambda point: 100 if point in slow else 0.1, scan=True, repeats=0)
    assert changed(driver) == []
    assert outcomes(driver) == ["pass"] * 9


def test_each_probe_of_a_search_decides() -> None:
    """It waits for the whole limit: what is slow is no hang."""
    takes = {**dict.fromkeys(range(60, 77), 100.0), **dict.fromkeys(range(77, 400), 1e9)}
    driver = drive(axis(400, good=0, bad=399), passes, takes=lambda point: takes.get(point, 0.1))
    assert driver.found["t"].answer.candidates == [77]
    assert {each.limit_s for point in driver.prober.observations.points("t") for each in point.observations} == {120}


def test_ends_that_hang_are_seen_in_full() -> None:
    with pytest.raises(UsageError, match="behaves alike"):
        drive(axis(9, good=0, bad=8), passes, takes=lambda _: 1e9, scan=True)
    driver = drive(axis(9, good=0, bad=8), passes, takes=lambda point: 30 if point < 5 else 1e9, scan=True)
    assert changed(driver) == [(4, 5)]


@pytest.mark.parametrize(
    ("ends", "text", "reason"),
    [
        ({"good": 0, "bad": 4}, "ppppp", "t behaves alike at --good 0.0 and --bad 4.0 .pass.; choose other ends"),
        ({"good": 0, "bad": 4}, "llppp", "t passes at --bad 4.0 and not at --good 0.0 .* swap them"),
        (
            {"good": 0, "bad": 4},
            "ppll?",
            "t has no known result at --bad 4.0 .infra-error here.; choose another end",
        ),
    ],
)
def test_wrong_ends(ends: dict[str, int], text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        drive(axis(5, **ends), words(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("?????", "no release has a known result"),
        ("ppppp", "no such change between the probed releases"),
    ],
)
def test_no_answer_has_a_reason(text: str, problem: str) -> None:
    driver = drive(axis(5), words(text))
    assert driver.problems == {"t": problem}
    assert not driver.found


def test_what_is_skipped_is_not_probed() -> None:
    driver = drive(axis(40, good=0, bad=39), words("p" * 20 + "l" * 20), skipped=frozenset({19, 20, 21}))
    assert sorted(driver.found["t"].answer.candidates) == [19, 20, 21, 22]
    assert not {19, 20, 21} & {point.index for point in driver.prober.observations.points("t")}


def test_what_was_observed_is_not_probed_again() -> None:
    """A bisection that was killed anywhere goes on from its log, to the same answer with no more runs in all."""
    behaviour = words("p" * 33 + "?" * 3 + "c" * 30)
    line = axis(66, good=0, bad=65)
    whole: list[Observation] = []
    driver = SearchDriver(
        axis=line, prober=Simulated("t", behaviour, whole), strategy=Strategy(scan=False, jobs=2, repeats=2)
    )
    driver.run()
    for count in range(len(whole)):
        later: list[Observation] = []
        prober = Simulated("t", behaviour, later)
        for seen in whole[:count]:
            prober.observations.add(seen)
        again = SearchDriver(axis=line, prober=prober, strategy=Strategy(scan=False, jobs=2, repeats=2))
        again.run()
        assert again.found["t"].answer.candidates == driver.found["t"].answer.candidates
        assert count + len(later) <= len(whole) + 2


def test_no_point_of_a_graph_is_lost() -> None:
    """A merge of a branch with the culprit."""
    parents = [(), (0,), (1,), (1,), (3,), (2, 4), (5,)]
    driver = drive(
        axis(7, good=0, bad=6, parents=parents, noun="commit"),
        lambda _test, point, _number: "lower-failed" if point in (3, 4, 5, 6) else "pass",
    )
    assert driver.found["t"].answer.candidates == [3]
    assert changed(driver)[0][1] == 3


def test_a_test_without_a_change_does_not_hide_the_others() -> None:
    def behaviour(test: str, point: int, _number: int) -> str:
        return "lower-failed" if test == "a" and point >= 7 else "pass"

    for scan in (True, False):
        driver = drive(axis(10, good=0, bad=9), behaviour, tests=("a", "b"), scan=scan)
        assert changed(driver, "a") == [(6, 7)]
        assert changed(driver, "b") == []
        assert "b behaves alike" in driver.problems["b"]
    with pytest.raises(UsageError, match="a behaves alike"):
        drive(axis(10, good=0, bad=9), lambda *_: "pass", tests=("a", "b"))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_shown_before_a_culprit_is_an_ancestor(seed: int) -> None:
    draw = random.Random(seed)
    parents: list[tuple[int, ...]] = [()]
    for point in range(1, 60):
        parents.append(
            tuple(
                sorted(
                    {
                        point - 1 if draw.random() < 0.6 else draw.randrange(max(0, point - 6), point),
                        draw.randrange(max(0, point - 6), point),
                    }
                )
            )
        )
    culprit = draw.randrange(2, 58)
    bad = {culprit}
    for point, each in enumerate(parents):
        if bad & {*each}:
            bad.add(point)
    newest = max(bad)
    driver = drive(
        axis(newest + 1, good=0, bad=newest, parents=parents[: newest + 1], noun="commit"),
        lambda _test, point, _number: "lower-failed" if point in bad else "pass",
    )
    ((before, after),) = changed(driver)
    assert driver.found["t"].answer.candidates == [culprit]
    older, waiting = set[int](), [culprit]
    while waiting:
        for each in parents[waiting.pop()]:
            if each not in older:
                older.add(each)
                waiting.append(each)
    assert (after, before in older) == (culprit, True)


class Crashing(Simulated):
    """A prober whose tests pass (p), or crash in a frame (f, g) or without one (.)."""

    def __init__(self, text: str) -> None:
        super().__init__(["t"], lambda _test, point, _number: "pass" if text[point] == "p" else "crashed")
        self._text = text

    def probe(self, wanted: Mapping[str, Sequence[int]], limit_s: float) -> None:
        super().probe(wanted, limit_s)
        for point in self.observations.points("t"):
            for each in point.observations:
                self.observations.replace(each, replace(each, signature=ended(self._text[point.index])))


def ended(letter: str) -> Signature:
    return PASS if letter == "p" else Signature(outcome=Outcome.CRASHED, signal="SIGSEGV", frame=letter.strip("."))


def crashes(text: str, *, scan: bool) -> list[tuple[int, int]]:
    strategy = Strategy(scan=scan, jobs=2, repeats=0 if scan else 1)
    driver = SearchDriver(axis=axis(len(text)), prober=Crashing(text), strategy=strategy)
    driver.run()
    return changed(driver)


@pytest.mark.parametrize(
    ("text", "expected"), [("ppp..ff", (2, 3)), ("..ffffg", (5, 6)), ("ff..ggg", (1, 4)), ("f.g..", (0, 2))]
)
def test_a_crash_without_a_frame_hides_no_change(text: str, expected: tuple[int, int]) -> None:
    assert crashes(text, scan=True) == crashes(text, scan=False) == [expected]


@pytest.mark.parametrize("scan", [True, False])
def test_no_change_is_claimed_between_what_may_be_the_same(scan: bool) -> None:
    for text in map("".join, itertools.product("p.fg", repeat=5)):
        for before, after in crashes(text, scan=scan):
            assert not ended(text[before]).alike(ended(text[after])), (text, before, after)
