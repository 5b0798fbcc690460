"""Search the pins that differ between a good and a bad pin set for those that make tests bad."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.driver import FoundChange, SearchDriver, change_between, verdict
from mlir_matrix.bisect.releases import Axis, as_glob
from mlir_matrix.bisect.search.pin_sets import MOST, PinSets, PinSetsAnswer
from mlir_matrix.bisect.search.search import SearchAnswer
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.session import plan_tests

#: The most pins that may differ, because an axis has a point for each set of them.
MOST_PINS = 12


@dataclass(frozen=True)
class MovedPins:
    """The pins that differ. A point is the set of pins that have their bad release, as a number with a bit for each pin."""

    #: The good and the bad release by component.
    moved: Mapping[str, tuple[str, str]]

    def __post_init__(self) -> None:
        if len(self.moved) > MOST_PINS:
            raise UsageError(f"{len(self.moved)} pins differ between --good and --bad; at most {MOST_PINS} may")

    def axis(self) -> Axis:
        """Return the sets as an axis."""
        names = [", ".join(self.changes(self.components(point))) for point in range(1 << len(self.moved))]
        return Axis(
            component=",".join(self.moved),
            noun="pin set",
            names=("no pin moved", *names[1:]),
            good=0,
            bad=len(names) - 1,
        )

    def changes(self, components: Collection[str]) -> list[str]:
        """Return ``llvm 18.1.8 → 19.1.7`` for each of these components."""
        return [f"{name} {good} → {bad}" for name, (good, bad) in self.moved.items() if name in components]

    def point(self, components: Collection[str]) -> int:
        """Return the point at which these components have their bad releases."""
        return sum(1 << number for number, name in enumerate(self.moved) if name in components)

    def components(self, point: int) -> frozenset[str]:
        """Return the components that have their bad releases at a point."""
        return frozenset(name for number, name in enumerate(self.moved) if point >> number & 1)

    def pins(self, point: int) -> dict[str, str]:
        """Return the releases at a point."""
        return {name: ends[point >> number & 1] for number, (name, ends) in enumerate(self.moved.items())}


def used_components(session: Session, names: Sequence[str], pins: MovedPins) -> dict[str, list[str]]:
    """Return the tests that can run at an end, each with the moved components that it uses there."""
    found: dict[str, set[str]] = {}
    for end in (0, pins.point(pins.moved)):
        there = session.with_pins(pins.pins(end))
        for test in choose(there.catalog, [as_glob(name) for name in names], pins=there.pins).tests():
            if test.outcome is None and test.selected:
                references = {action.environment for action in plan_tests(there, [test]).graph.actions.values()}
                pairs = (pair for each in references for pair in (*there.releases(each), *there.needs(each)))
                found.setdefault(test.id, set()).update(entry.name for entry, _ in pairs)
    return {test: [name for name in pins.moved if name in used] for test, used in found.items()}


@dataclass(kw_only=True)
class PinDriver(SearchDriver):
    """Probes sets of pins until each test has the smallest ones that make it bad."""

    pins: MovedPins
    answers: dict[str, PinSetsAnswer] = field(default_factory=dict)

    def run(self) -> None:
        """Probe until each test has an answer. Raise UsageError for pin sets that behave alike."""
        bad = len(self.axis) - 1
        observations = self.prober.observations
        self._repeat({test: [0, bad] for test in observations.tests})
        searches = {test: PinSets(list(self.pins.moved)) for test in observations.tests if self._has_ends(test, 0, bad)}
        while True:
            wanted = {}
            for test, search in searches.items():
                self._feed(test, search)
                wanted[test] = [self.pins.point(each) for each in search.next(self.strategy.jobs)]
            if not any(wanted.values()):
                break
            self._repeat(wanted)
        for test, search in searches.items():
            answer = self.answers[test] = search.answer()
            unknown = "; ".join(" with ".join(self.pins.changes(each)) for each in answer.unknown)
            problems = [f"{unknown} had no known result"] if unknown else []
            problems += [] if answer.complete else [f"there may be more causes than {MOST} probes found"]
            if problems:
                self.problems[test] = "; ".join(problems)
        self._check_some()

    def _repeat(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """Probe sets. Probe those that were not bad again, because a flaky test may pass by chance."""
        observations, bad = self.prober.observations, len(self.axis) - 1
        self._probe({test: self._unseen(test, points) for test, points in wanted.items()})
        again: dict[str, list[int]] = {}
        for test, points in wanted.items():
            at_good, at_bad = self._known(test, 0).keys(), self._known(test, bad).keys()
            for point in points:
                seen = observations.at(test, point)
                known = self._known(test, point).keys()
                if seen and known and not (at_bad - at_good) & known:
                    again.setdefault(test, []).extend([point] * (self.strategy.repeats + 1 - len(seen.observations)))
        if any(again.values()):
            self._probe(again)

    def _feed(self, test: str, search: PinSets) -> None:
        """Pass the observations to a search. A set that was bad once is bad."""
        old, new = self._signatures(test, 0, len(self.axis) - 1)
        for point in self.prober.observations.points(test):
            if 0 < point.index < len(self.axis) - 1:
                seen = new if new in point.behaviours else point.shown.signature
                search.observe(self.pins.components(point.index), verdict(seen, old, new))

    def changes(self, test: str) -> list[FoundChange]:
        """Return a change for each smallest set of pins."""
        points = [self.pins.point(each) for each in self.answers[test].guilty] if test in self.answers else []
        observed = [self.prober.observations.at(test, point) for point in (0, *points)]
        good, *bad = [each for each in observed if each]
        return [FoundChange(change=change_between(good, each), answer=SearchAnswer([each.index], 1.0)) for each in bad]
