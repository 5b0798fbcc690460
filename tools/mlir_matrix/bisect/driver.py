"""Drive probes: scan all points of a short axis for changes of behaviour, or search a long axis for a change of each test.

The searches of several tests share probes: a point that one search needs is observed for all tests.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.observations import Observation, Observations, Point
from mlir_matrix.bisect.prober import Prober
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.search.history import History, LinearHistory, history
from mlir_matrix.bisect.search.search import ContradictionError, ProbeVerdict, Search, SearchAnswer
from mlir_matrix.results.signature import Signature, alike

#: The most points of an axis that is scanned and not searched.
SHORT = 32
#: The most repeated probes of one round.
_AGAIN = 6
#: For a scan: the least time limit of actions in seconds, and the factor of the fastest release's time for other releases.
_LEAST_S, _TIMES = 20.0, 10
Find = Literal["change", "broke", "fixed"]
_Ends: TypeAlias = tuple[int, int]
#: Yields the points that a test needs next. An observed point is observed again.
_Probes: TypeAlias = Generator[Sequence[int], None, None]
_ProbesForEnds: TypeAlias = Generator[Sequence[int], None, _Ends | None]
_ProbesForPoint: TypeAlias = Generator[Sequence[int], None, int | None]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How to search for changes."""

    scan: bool
    jobs: int
    find: Find = "change"
    confidence: float = 0.95
    #: Repeated probes: in a scan, of each point; in a search, of the last candidates and the points before them.
    repeats: int = 0
    #: A weight for each point.
    prior: Sequence[float] | None = None
    #: Points that are not probed.
    skipped: frozenset[int] = frozenset()
    #: A function that asks a person for the verdicts of new observations.
    review: Callable[[Observations, Sequence[Observation]], None] | None = None


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The result of a search for a test: the points at which the behaviour ``old`` becomes ``new``."""

    old: Signature
    new: Signature
    answer: SearchAnswer


@dataclass(frozen=True, kw_only=True)
class FoundChange:
    """A change, and the points that may have made it."""

    change: ChangeInterval[frozenset[Signature]]
    answer: SearchAnswer


@dataclass(kw_only=True)
class SearchDriver:
    """Probes an axis for all tests."""

    axis: Axis
    prober: Prober
    strategy: Strategy
    found: dict[str, SearchResult] = field(default_factory=dict)
    #: By test, why its search ended without an answer.
    problems: dict[str, str] = field(default_factory=dict)
    #: By test: why there is nothing to find between the given ends.
    wrong_ends: dict[str, str] = field(default_factory=dict)
    #: For the display of progress: the number of rounds, and the remaining candidates by test.
    rounds: int = 0
    left: dict[str, int] = field(default_factory=dict)
    _history: History[Any] = field(init=False)

    def __post_init__(self) -> None:
        parents = self.axis.parents
        self._history = LinearHistory(len(self.axis)) if parents is None else history(parents)

    def run(self) -> None:
        """Probe until each test has an answer. Raise UsageError for ends between which there is no change."""
        tests, observations = self.prober.observations.tests, self.prober.observations
        if self.strategy.review is not None:
            known = [each for test in tests for point in observations.points(test) for each in point.observations]
            self.strategy.review(observations, [each for each in known if not each.judged])
        if self.strategy.scan:
            self._scan(tests)
        else:
            self._search_all(tests)
        self._check_some()

    def _check_some(self) -> None:
        """Raise UsageError if the ends are wrong for every test."""
        self.problems |= self.wrong_ends
        if len(self.wrong_ends) == len(self.prober.observations.tests):
            raise UsageError(next(iter(self.wrong_ends.values())))

    def _search_all(self, tests: Sequence[str]) -> None:
        searches = {test: self._search(test) for test in tests}
        while searches:
            wanted = {}
            for test, search in list(searches.items()):
                points = next(search, None)
                if points:
                    wanted[test] = points
                else:
                    del searches[test]
            if wanted:
                self._probe(self._shared(wanted))

    def changes(self, test: str) -> list[FoundChange]:
        """Return the changes of a test: all that a scan finds, or the one that a search finds."""
        points = self.prober.observations.points(test)
        if not self.strategy.scan:
            return [self._between(self.found[test], points)] if test in self.found else []
        known = {point.index: point.known for point in points}
        every = changes([known.get(index) for index in range(len(self.axis))], alike)
        return [
            FoundChange(change=each, answer=SearchAnswer((*each.between, each.after), 1.0))
            for each in every
            if self.strategy.find in ("change", word(each.was, each.becomes))
        ]

    def _scan(self, tests: Sequence[str]) -> None:
        observations = self.prober.observations
        points = [point for point in range(len(self.axis)) if point not in self.strategy.skipped]
        self._probe_briefly({test: [point for point in points if not observations.at(test, point)] for test in tests})
        for number in range(self.strategy.repeats):
            # A point with an unknown result is not probed again.
            seen = {test: [each for each in observations.points(test) if each.known] for test in tests}
            few = {
                test: [each.index for each in of if len(each.observations) < number + 2] for test, of in seen.items()
            }
            self._probe_briefly(few)
        self.prober.level_times()
        if self.axis.good is not None and self.axis.bad is not None:
            for test in tests:
                self._has_ends(test, self.axis.good, self.axis.bad)

    def _probe_briefly(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """Probe under a small limit, because many points may hang. Probe again in full if a time-out decides."""
        observations, full_s = self.prober.observations, self.prober.limits.timeout_s
        self._probe(wanted, self._brief_s(wanted))
        while True:
            late = {test: observations.forget_late(test, self._deciding(test), full_s) for test in wanted}
            if not any(late.values()):
                break
            self._probe(late, full_s)
            # Before any point has ended, the limit may have been too small.
            brief_s = self._brief_s(wanted)
            self._probe(
                {test: observations.forget_late(test, range(len(self.axis)), brief_s) for test in wanted}, brief_s
            )

    def _brief_s(self, tests: Iterable[str]) -> float:
        """Return a time limit of actions: ten times the time of the fastest point that has ended."""
        limit_s = _LEAST_S
        for test in tests:
            seen = [each for point in self.prober.observations.points(test) for each in point.observations]
            ended = [each for each in seen if each.signature and each.result.outcome != Outcome.TIMED_OUT]
            limit_s = max(limit_s, _TIMES * min((each.result.duration_s for each in ended), default=0.0))
        # With --interactive, a person judges each observation only once.
        full_s = self.prober.limits.timeout_s
        return full_s if self.strategy.review is not None else min(full_s, limit_s)

    def _deciding(self, test: str) -> set[int]:
        """Return the points that decide an answer: both sides of changes, the ends, and the newest known point."""
        sides = {point for each in self.changes(test) for point in (each.change.before, each.change.after)}
        known = [point.index for point in self.prober.observations.points(test) if point.known]
        return sides | {point for point in (self.axis.good, self.axis.bad, *known[-1:]) if point is not None}

    def _probe(self, wanted: Mapping[str, Sequence[int]], limit_s: float | None = None) -> None:
        if not any(wanted.values()):
            return
        observations = self.prober.observations
        counts = {}
        for test, points in wanted.items():
            for point in points:
                known = observations.at(test, point)
                counts[test, point] = len(known.observations) if known else 0
        self.prober.probe(wanted, limit_s or self.prober.limits.timeout_s)
        self.rounds += 1
        if self.strategy.review is not None:
            known_now = {place: observations.at(*place) for place in counts}
            new = [each for place, now in known_now.items() if now for each in now.observations[counts[place] :]]
            self.strategy.review(observations, new)

    def _shared(self, wanted: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        """Return the probes of one round: as many new points as jobs, each for all tests, and points to repeat."""
        fresh = [self._unseen(test, list(dict.fromkeys(points))) for test, points in wanted.items()]
        turns = chain.from_iterable(zip_longest(*fresh))
        chosen = list(dict.fromkeys(point for point in turns if point is not None))[: self.strategy.jobs]
        return {
            test: [*self._unseen(test, chosen), *self._repeats(test, points, chosen)] for test, points in wanted.items()
        }

    def _repeats(self, test: str, points: Sequence[int], chosen: Sequence[int]) -> list[int]:
        """Return the points that a test knows, or will know after this round, and needs again."""
        seen = {point for point in points if not self._unseen(test, [point])}
        found = []
        for point in points:
            if point in seen:
                found.append(point)
            elif point in chosen:
                seen.add(point)
        return found

    def _between(self, found: SearchResult, points: Sequence[Point]) -> FoundChange:
        """Return the change that a search found, between the observed points nearest to the most likely candidate."""
        culprit = found.answer.candidates[0]
        older = set(self._history.listed(self._history.between((), culprit)))
        old, new = (
            [point for point in points if any(verdict(each, found.old, found.new) == side for each in point.behaviours)]
            for side in (ProbeVerdict.GOOD, ProbeVerdict.BAD)
        )
        # A flaky test may show both behaviours, also at its good end.
        old = [point for point in old if point not in new] or old
        before = [point for point in old if point.index in older and point.index != culprit] or old[:1]
        after = [point for point in new if point.index >= culprit and self._is_after(point.index, culprit)] or new[-1:]
        return FoundChange(change=change_between(before[-1], after[0]), answer=found.answer)

    def _is_after(self, point: int, culprit: int) -> bool:
        return culprit in self._history.listed(self._history.between((), point))

    def _search(self, test: str) -> _Probes:
        """Yield the points that the search for one test needs."""
        ends = yield from self._find_ends(test)
        if ends is None:
            return
        older, newer = ends
        old, new = self._signatures(test, older, newer)
        search = Search(
            self._history,
            self.strategy.prior,
            good=[older],
            bad=newer,
            confidence=self.strategy.confidence,
            repeats=self.strategy.repeats,
        )
        for point in self.strategy.skipped - {older, newer}:
            search.observe(point, ProbeVerdict.CANNOT_TELL)
        fed: dict[int, int] = {older: 1 << 30}
        try:
            while True:
                for known in self.prober.observations.points(test):
                    for seen in known.observations[fed.get(known.index, 0) :]:
                        fed[known.index] = fed.get(known.index, 0) + 1
                        search.observe(known.index, verdict(seen.signature, old, new))
                wanted, self.left[test] = search.next(self.strategy.jobs), search.left
                if wanted and not self._unseen(test, wanted):
                    # An installed point takes little time to run again.
                    more = search.next(max(self.strategy.jobs, _AGAIN))
                    wanted = [point for point in more if not self._unseen(test, [point])] or wanted
                if not wanted:
                    break
                yield wanted
        except ContradictionError as error:
            self.problems[test] = str(error).replace(f"point {error.point}", self.axis.names[error.point])
        self.found[test] = SearchResult(old=old, new=new, answer=search.answer())

    def _known(self, test: str, point: int) -> Mapping[Signature, int]:
        """Return how often each behaviour was seen at a point."""
        found = self.prober.observations.at(test, point)
        return found.behaviours if found else {}

    def _signatures(self, test: str, older: int, newer: int) -> tuple[Signature, Signature]:
        """Return the behaviours of the ends: the most frequent ones that differ."""
        at_older, at_newer = self._known(test, older), self._known(test, newer)
        new = max(at_newer, key=lambda each: (not any(map(each.alike, at_older)), at_newer[each]))
        return max(at_older, key=lambda each: (not each.alike(new), at_older[each])), new

    def _find_ends(self, test: str) -> _ProbesForEnds:
        """Yield points until an older and a newer one behave differently; return these, or None."""
        good, bad = self.axis.good, self.axis.bad
        if good is not None and bad is not None:
            yield from self._observed(test, [good, bad])
            for _ in range(self.strategy.repeats):
                # A flaky test may have passed at its bad end by chance.
                known = self._known(test, good), self._known(test, bad)
                if not all(known) or not alike(*known):
                    break
                yield [bad]
            return (min(good, bad), max(good, bad)) if self._has_ends(test, good, bad) else None
        newest = yield from self._newest_known(test)
        if newest is None:
            self.problems[test] = f"no {self.axis.noun} has a known result"
            return None
        if good is not None and good != newest:
            yield from self._observed(test, [good])
            return (good, newest) if self._has_ends(test, good, newest) else None
        return (yield from self._gallop(test, newest))

    def _observed(self, test: str, points: Sequence[int]) -> _Probes:
        while missing := self._unseen(test, points):
            yield missing

    def _unseen(self, test: str, points: Sequence[int]) -> list[int]:
        return [point for point in points if not self.prober.observations.at(test, point)]

    def _newest_known(self, test: str) -> _ProbesForPoint:
        """Yield points from the newest on until one has a known result. Return that point, or None."""
        for point in range(len(self.axis) - 1, -1, -1):
            if point in self.strategy.skipped:
                continue
            yield from self._observed(test, [point])
            if self._known(test, point):
                return point
        return None

    def _gallop(self, test: str, newest: int) -> _ProbesForEnds:
        """Yield points with growing distance. Return the nearest pair with the wanted change, or None."""
        older = sorted({max(0, newest - (1 << power)) for power in range(newest.bit_length() + 1)}, reverse=True)
        older = [point for point in older if point < newest and point not in self.strategy.skipped]
        newer = newest
        for start in range(0, len(older), self.strategy.jobs):
            batch = older[start : start + self.strategy.jobs]
            yield from self._observed(test, batch)
            for point in filter(lambda point: self._known(test, point), batch):
                old, new = self._signatures(test, point, newer)
                if not old.alike(new) and self.strategy.find in ("change", word({old}, {new})):
                    return point, newer
                # A crash without a frame may be the same as several different crashes.
                newer = newer if old.alike(new) and new.frame and not old.frame else point
        self.problems[test] = f"no such change between the probed {self.axis.noun}s"
        return None

    def _has_ends(self, test: str, good: int, bad: int) -> bool:
        """Return whether a test behaves differently at its ends, and passes at the good one if it does at the bad."""
        if why := self._why_not(test, good, bad):
            self.wrong_ends[test] = why
        return not why

    def _why_not(self, test: str, good: int, bad: int) -> str:
        known = [self.prober.observations.at(test, point) for point in (good, bad)]
        names = [self.axis.names[point] for point in (good, bad)]
        ends = ["--good", "--bad"]
        if self.axis.noun != "pin set":
            ends = [f"{option} {name}" for option, name in zip(ends, names, strict=True)]
        at = [each.known if each else None for each in known]
        for end, point, found in zip(ends, known, at, strict=True):
            if found is None and self.strategy.scan:
                # Points between the ends may be sufficient.
                return ""
            if found is None:
                why = point.shown.result.reason if point else "it is skipped"
                return f"{test} has no known result at {end} ({why}); choose another end"
        words = [" or ".join(sorted(map(str, found or ()))) for found in at]
        if [{each.passes for each in found or ()} for found in at] == [{False}, {True}]:
            return f"{test} passes at {ends[1]} and not at {ends[0]} ({words[0]}); swap them"
        if alike(at[0] or (), at[1] or ()):
            return f"{test} behaves alike at {' and '.join(ends)} ({words[0]}); choose other ends"
        return ""


def change_between(before: Point, after: Point) -> ChangeInterval[frozenset[Signature]]:
    """Return the change from one point to another."""
    return ChangeInterval(
        before=before.index, after=after.index, was=before.known or frozenset(), becomes=after.known or frozenset()
    )


def word(was: Set[Signature], becomes: Set[Signature]) -> Literal["broke", "fixed", "differs"]:
    """Name a change from some behaviours to others."""
    passed, passes = (all(each.passes for each in known) for known in (was, becomes))
    if passed == passes:
        return "differs"
    return "broke" if passed else "fixed"


def verdict(seen: Signature | None, old: Signature, new: Signature) -> ProbeVerdict:
    """Return the verdict of a behaviour in a search for a change from ``old`` to ``new``; a third behaviour has none.

    A cost that differs from the old one by more than its bound is new, if it differs in the same direction.
    """
    if seen is not None and seen.amount is not None and old.amount is not None and new.amount is not None:
        if seen.alike(old):
            return ProbeVerdict.GOOD
        is_towards = (seen.amount > old.amount) == (new.amount > old.amount)
        return ProbeVerdict.BAD if is_towards else ProbeVerdict.CANNOT_TELL
    is_old, is_new = (seen is not None and seen.alike(each) for each in (old, new))
    if is_old == is_new:
        return ProbeVerdict.CANNOT_TELL
    return ProbeVerdict.BAD if is_new else ProbeVerdict.GOOD


Behaviour = TypeVar("Behaviour")


@dataclass(frozen=True, kw_only=True)
class ChangeInterval(Generic[Behaviour]):
    """Two neighbours among the known points that behave differently."""

    #: The last point before, and the first one after.
    before: int
    after: int
    was: Behaviour
    becomes: Behaviour

    @property
    def between(self) -> range:
        """The points between, of which nothing is known: each may have made the change, as may ``after``."""
        return range(self.before + 1, self.after)


def changes(
    behaviours: Sequence[Behaviour | None], alike: Callable[[Behaviour, Behaviour], bool] = operator.eq
) -> list[ChangeInterval[Behaviour]]:
    """Return every change along an axis. None is a point with an unknown result.

    ``alike`` need not be transitive: a point that is like those before and after a change may have either behaviour.
    """
    found: list[ChangeInterval[Behaviour]] = []
    #: The behaviours since the last change.
    since: list[tuple[int, Behaviour]] = []
    for after, becomes in enumerate(behaviours):
        if becomes is None:
            continue
        others = [(point, was) for point, was in since if not alike(was, becomes)]
        if others:
            before, was = others[-1]
            found.append(ChangeInterval(before=before, after=after, was=was, becomes=becomes))
            since = []
        since.append((after, becomes))
    return found
