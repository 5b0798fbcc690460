"""Walk to the furthest commit at which everything expected holds, and find the commit behind each break on the way.

What is assumed: a test that is broken at two probed commits, the later one after the earlier, is broken at those between, unless a
probe shows otherwise; so is a build. Each probe counts for all tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mlir_matrix.bisect.commits import Commits
from mlir_matrix.bisect.search.history import History, history
from mlir_matrix.bisect.search.search import MANY, ContradictionError, ProbeVerdict, Rates, Search

#: How many commits before one that cannot be built are tried before the commit that broke the build is searched.
_NEAR = 2
#: A test does not fail by chance: flaky ones are no breaks.
_SURE = Rates(deterministic=1.0)


class LateError(Exception):
    """The time is over: no further commit may be built."""


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What a commit shows."""

    #: Why it cannot be built; empty if it can.
    unbuildable: str = ""
    #: How each broken test behaves.
    broken: Mapping[str, str] = field(default_factory=dict)

    def holds(self, before: Collection[str]) -> bool:
        """Return whether it can be built, and breaks no test but those that were broken before."""
        return not self.unbuildable and not self.broken.keys() - set(before)


@dataclass(frozen=True, kw_only=True)
class Break:
    """Tests that one change broke in one way, or the build that it broke."""

    kind: Literal["test", "build"]
    tests: tuple[str, ...]
    #: How they behave, or the error of the build.
    behaviour: str
    #: The commits of which one is the culprit: more than one if those between cannot be built.
    candidates: tuple[int, ...]
    #: A commit that shows it, and the newest one before that does not.
    shown_at: int
    last_good: int
    #: How many commits were built to find it.
    builds: int


@dataclass(kw_only=True)
class Walk:
    """Probes commits between two ends."""

    commits: Commits
    #: Returns what a commit shows. Raises LateError.
    probe: Callable[[int], Probed]
    seen: dict[int, Probed] = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)
    #: Tests that are broken at the start, which is no break on the way.
    before: frozenset[str] = frozenset()
    #: True if the time was over before the walk ended.
    late: bool = False

    def __post_init__(self) -> None:
        self._history: History[Any] = history(self.commits.parents)
        #: The first parents from the start to the end, oldest first.
        self.line = list(line_of(self.commits))

    def run(self) -> int:
        """Return the furthest commit at which all that held at the start holds. The start has to be built."""
        try:
            self.before = frozenset(self.at(self.commits.good).broken)
            return self._walk(self.commits.good, self.commits.bad)
        except LateError:
            self.late = True
            return self._furthest_seen()

    def _walk(self, good: int, top: int) -> int:
        while top != good:
            if self.at(top).unbuildable:
                top = self._before_broken_build(top)
                continue
            broken = sorted(self.at(top).broken.keys() - self.before)
            if not broken:
                return top
            for test in broken:
                self._find_culprits(test, top)
            top = self._before({point for found in self.breaks for point in found.candidates}, top)
        return good

    def at(self, point: int) -> Probed:
        """Return what a commit shows; probe it unless that is known. Raise LateError."""
        if point not in self.seen:
            self.seen[point] = self.probe(point)
        return self.seen[point]

    def _furthest_seen(self) -> int:
        """Return the newest known commit at which everything holds."""
        return [
            self.commits.good,
            *(point for point in self.line if point in self.seen and self.seen[point].holds(self.before)),
        ][-1]

    def _before_broken_build(self, top: int) -> int:
        """Return a commit before one that cannot be built: a near one, else the last before the build broke."""
        place = self.line.index(top)
        near = reversed(self.line[max(0, place - _NEAR) : place])
        built = next((point for point in near if not self.at(point).unbuildable), None)
        found = self._culprit("build", "", "", top)
        self._add(found)
        return self._before(found.candidates, top) if built is None else built

    def _find_culprits(self, test: str, top: int) -> None:
        """Add what broke a test; and what changed how it fails since, because one change can hide another one."""
        first = self._culprit("test", test, "", top)
        self._add(first)
        now = self.at(top).broken[test]
        if first.behaviour != now and top not in first.candidates:
            self._add(self._culprit("test", test, now, top))

    def _culprit(self, kind: Literal["test", "build"], test: str, behaviour: str, top: int) -> Break:
        """Search what broke the build (no test), a test (no behaviour), or a test in this way."""

        def verdict(seen: Probed) -> ProbeVerdict:
            if not test:
                return ProbeVerdict.BAD if seen.unbuildable else ProbeVerdict.GOOD
            if seen.unbuildable:
                return ProbeVerdict.CANNOT_TELL
            fails = seen.broken.get(test, "")
            is_bad = fails == behaviour if behaviour else bool(fails)
            return ProbeVerdict.BAD if is_bad else ProbeVerdict.GOOD

        good, bad = self._ends(verdict, top)
        search = Search(self._history, good=[good], bad=bad, rates=_SURE, repeats=0)
        fed, builds = {good, bad}, 0
        while True:
            for point in self.seen.keys() - fed:
                fed.add(point)
                try:
                    search.observe(point, verdict(self.seen[point]))
                except ContradictionError:
                    # The test changed more than once; this search is for the change between these ends.
                    continue
            wanted = search.next(1)
            if not wanted:
                break
            self.at(wanted[0])
            builds += 1
        candidates = tuple(search.answer().candidates)
        shown = [point for point in sorted(self.seen) if point >= min(candidates) and self._is_bad(point, verdict, bad)]
        shown_at = next((point for point in shown if self.contains(point, candidates)), bad)
        seen = self.seen[shown_at]
        return Break(
            kind=kind, tests=(test,) if test else (), behaviour=seen.broken.get(test, seen.unbuildable),
            candidates=candidates, shown_at=shown_at, last_good=self._last_good(verdict, candidates, good), builds=builds,
        )  # fmt: skip

    def _ends(self, verdict: Callable[[Probed], ProbeVerdict], top: int) -> tuple[int, int]:
        """Return the newest known good commit of the line before ``top``, and the first known bad one after it."""
        known = [(point, verdict(self.seen[point])) for point in self.line if point in self.seen and point <= top]
        good = [point for point, said in known if said is ProbeVerdict.GOOD and point != top]
        last = good[-1] if good else self.commits.good
        return last, next(point for point, said in known if said is ProbeVerdict.BAD and point > last)

    def _is_bad(self, point: int, verdict: Callable[[Probed], ProbeVerdict], bad: int) -> bool:
        return point == bad or verdict(self.seen[point]) is ProbeVerdict.BAD

    def _last_good(self, verdict: Callable[[Probed], ProbeVerdict], candidates: Sequence[int], start: int) -> int:
        """Return the newest known good commit that has no candidate in its history."""
        found = [point for point in sorted(self.seen) if verdict(self.seen[point]) is ProbeVerdict.GOOD]
        older = [point for point in found if point < max(candidates) and not self.contains(point, candidates)]
        return older[-1] if older else start

    def contains(self, point: int, culprits: Collection[int]) -> bool:
        """Return whether a commit has one of these in its history."""
        inside = set(self._history.listed(self._history.between((), point)))
        return not inside.isdisjoint(culprits)

    def _before(self, culprits: Collection[int], top: int) -> int:
        """Return the last commit of the line before ``top`` that has no culprit in its history, and that can be built."""
        having = set(culprits)
        for point, parents in enumerate(self.commits.parents):
            if having.intersection(parents):
                having.add(point)
        free = [point for point in self.line[: self.line.index(top)] if point not in having] or [self.commits.good]
        for point in free[: -MANY - 1 : -1]:
            if point == self.commits.good or not self.at(point).unbuildable:
                return point
        return free[-1]

    def _add(self, found: Break) -> None:
        """Add a break, to one with the same culprit and behaviour if there is one."""
        for place, each in enumerate(self.breaks):
            if (each.kind, each.behaviour, each.candidates) == (found.kind, found.behaviour, found.candidates):
                tests = tuple(dict.fromkeys((*each.tests, *found.tests)))
                self.breaks[place] = replace(each, tests=tests, builds=each.builds + found.builds)
                return
        self.breaks.append(found)


def line_of(commits: Commits) -> Iterator[int]:
    """Yield the first parents from the good end to the bad one, oldest first, that have the good end in their history."""
    parents, good = commits.parents, commits.good
    newer = {good}
    for point, before in enumerate(parents):
        if newer.intersection(before):
            newer.add(point)
    found = [commits.bad]
    while found[-1] != good and parents[found[-1]]:
        found.append(parents[found[-1]][0])
    yield good
    yield from (point for point in reversed(found) if point in newer and point != good)


def by_halves(line: Sequence[int]) -> Iterator[int]:
    """Yield the points of a line as a walk may ask for them: both ends, the middle, the quarters, and so on."""
    yield from dict.fromkeys((line[0], line[-1]))
    parts = deque([(0, len(line) - 1)])
    while parts:
        low, high = parts.popleft()
        middle = (low + high) // 2
        if middle > low:
            yield line[middle]
            parts += [(low, middle), (middle, high)]
