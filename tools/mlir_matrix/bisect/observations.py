"""Hold the observations of tests at the points of an axis, and the behaviours of each point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import Signature


@dataclass(frozen=True, kw_only=True)
class Observation:
    """How a test ended once at a point of the axis."""

    test: str
    #: The index of the point.
    point: int
    #: None if the result says nothing about the code under test.
    signature: Signature | None
    result: TestResult
    #: The time limit of its actions, in seconds.
    limit_s: float
    #: Whether a person chose the signature. Otherwise it was computed.
    judged: bool = False


@dataclass(frozen=True)
class Point:
    """All observations of a test at a point, the oldest first."""

    index: int
    observations: Sequence[Observation]

    @property
    def behaviours(self) -> Mapping[Signature, int]:
        """Return how often each behaviour was seen. With several behaviours, the test is flaky here."""
        counts: dict[Signature, int] = {}
        for each in self.observations:
            if each.signature is not None:
                counts[each.signature] = counts.get(each.signature, 0) + 1
        return counts

    @property
    def known(self) -> frozenset[Signature] | None:
        """Return the behaviours; None if none is known."""
        return frozenset(self.behaviours) or None

    @property
    def shown(self) -> Observation:
        """Return the observation that represents the point: the first failure, else the first known one."""
        telling = [each for each in self.observations if each.signature is not None] or self.observations
        return next((each for each in telling if each.result.outcome != "pass"), telling[0])


class Observations:
    """All observations of a bisection."""

    def __init__(self, tests: Iterable[str]) -> None:
        self._found: dict[str, dict[int, list[Observation]]] = {test: {} for test in tests}

    @property
    def tests(self) -> list[str]:
        return list(self._found)

    def add(self, seen: Observation) -> None:
        self._found[seen.test].setdefault(seen.point, []).append(seen)

    def replace(self, old: Observation, new: Observation) -> int:
        """Replace an observation by another one of the same test and point. Return its index there."""
        found = self._found[old.test][old.point]
        place = next(number for number, each in enumerate(found) if each is old)
        found[place] = new
        return place

    def forget_late(self, test: str, points: Iterable[int], limit_s: float) -> list[int]:
        """Forget time-outs under smaller limits. Return their points, one for each time-out."""
        seen = [each for point in points for each in self._found[test].get(point, ())]
        late = [
            each
            for each in seen
            if each.result.outcome == Outcome.TIMED_OUT and each.limit_s < limit_s and not each.judged
        ]
        for each in late:
            self._found[test][each.point].remove(each)
        return [each.point for each in late]

    def at(self, test: str, point: int) -> Point | None:
        """Return the observations of a test at a point; None if there are none."""
        found = self._found[test].get(point)
        return Point(point, found) if found else None

    def points(self, test: str) -> list[Point]:
        """Return the observed points in the order of the axis."""
        return [Point(point, found) for point, found in sorted(self._found[test].items()) if found]
