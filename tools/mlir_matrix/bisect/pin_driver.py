"""Search the pins that moved between a good and a bad pin set for those that make tests bad."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mlir_matrix.bisect.driver import Driver, FoundChange, change_between, verdict
from mlir_matrix.bisect.pin_sets import PinSets, PinSetsAnswer
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.search import Answer
from mlir_matrix.errors import UsageError
from mlir_matrix.expand.select import choose
from mlir_matrix.session import Session

#: Pins that may move at once: an axis has a point for each set of them.
MOST_PINS = 12


@dataclass(frozen=True)
class MovedPins:
    """The pins that differ. A point is a set of them, as a number with a bit for each: those that are moved to the bad end."""

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
        """Return the point at which these components are moved."""
        return sum(1 << number for number, name in enumerate(self.moved) if name in components)

    def components(self, point: int) -> frozenset[str]:
        """Return the components that are moved at a point."""
        return frozenset(name for number, name in enumerate(self.moved) if point >> number & 1)

    def pins(self, point: int) -> dict[str, str]:
        """Return the releases at a point."""
        return {name: ends[point >> number & 1] for number, (name, ends) in enumerate(self.moved.items())}


def used_components(session: Session, names: Sequence[str], moved: Collection[str]) -> dict[str, list[str]]:
    """Return the tests with those of the components that they use. Raise UsageError where one uses none."""
    found = {}
    for test in choose(session.catalog, names, pins=session.pins).tests():
        plan = session.plan([test])
        references = {action.environment for action in plan.graph.actions.values()}
        pairs = (pair for each in references for pair in (*session.releases(each), *session.needs(each)))
        used = {entry.name for entry, _ in pairs}
        found[test.id] = [name for name in moved if name in used]
        if not found[test.id]:
            raise UsageError(f"{test.id} uses none of {', '.join(moved)}; leave it out")
    return found


@dataclass(kw_only=True)
class PinDriver(Driver):
    """Probes sets of pins until each test has the smallest ones that make it bad."""

    pins: MovedPins
    answers: dict[str, PinSetsAnswer] = field(default_factory=dict)

    def run(self) -> None:
        """Probe until each test has an answer. Raise UsageError for pin sets that behave alike."""
        good, bad = 0, len(self.axis) - 1
        observations = self.prober.observations
        self._probe(
            {test: [each for each in (good, bad) if not observations.at(test, each)] for test in observations.tests}
        )
        searches = {}
        for test in observations.tests:
            self._check_ends(test, good, bad)
            searches[test] = PinSets(list(self.pins.moved))
        while True:
            wanted = {}
            for test, search in searches.items():
                self._feed(test, search)
                points = [self.pins.point(each) for each in search.next(self.strategy.jobs)]
                wanted[test] = [each for each in points if not observations.at(test, each)]
            if not any(wanted.values()):
                break
            self._probe(wanted)
        for test, search in searches.items():
            answer = self.answers[test] = search.answer()
            if answer.unknown:
                sets = "; ".join(" with ".join(self.pins.changes(each)) for each in answer.unknown)
                self.problems[test] = f"nothing could be told of {sets}"

    def _feed(self, test: str, search: PinSets) -> None:
        """Give a search what was observed."""
        old, new = self._signatures(test, 0, len(self.axis) - 1)
        for point in self.prober.observations.points(test):
            if 0 < point.index < len(self.axis) - 1:
                search.observe(self.pins.components(point.index), verdict(point.shown.signature, old, new))

    def changes(self, test: str) -> list[FoundChange]:
        """Return a change for each smallest set of pins."""
        points = [self.pins.point(each) for each in self.answers[test].guilty]
        observed = [self.prober.observations.at(test, point) for point in (0, *points)]
        good, *bad = [each for each in observed if each]
        return [FoundChange(change=change_between(good, each), answer=Answer([each.index], 1.0)) for each in bad]
