"""Change points of a line that was probed at all points, or at some: behaviours can be more than two, and come back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

#: Seconds that scanning a whole line may take, where searching would be faster.
PATIENCE = 60.0


@dataclass(frozen=True)
class ChangePoint:
    """Two points that behave differently, and no known point between them."""

    before: int
    after: int
    old: Hashable
    new: Hashable

    @property
    def unknown(self) -> range:
        """The points between, of which nothing is known. The change is in one of them, or in ``after``."""
        return range(self.before + 1, self.after)


def change_points(behaviours: Mapping[int, Hashable]) -> list[ChangePoint]:
    """Return all change points between the points whose behaviours are known, oldest first."""
    return [
        ChangePoint(before, after, behaviours[before], behaviours[after])
        for before, after in pairwise(sorted(behaviours))
        if behaviours[before] != behaviours[after]
    ]


def rounds(points: int, jobs: int) -> int:
    """Return how many rounds a search among points takes at most, if the verdicts are certain."""
    found, most = 1, 1
    while most < points:
        found, most = found + 1, most * (jobs + 1)
    return found


def scans(points: int, jobs: int, probe_seconds: float) -> bool:
    """Whether to probe all points of a line, which finds every change, instead of searching for one."""
    scan = ceil(points / jobs)
    return scan <= rounds(points, jobs) or scan * probe_seconds <= PATIENCE
