"""Histories to search: points with parents, in topological order, oldest first.

A set of points is a range in a line, and a number with a bit for each point in a graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Generic, TypeVar

from mlir_matrix.base.errors import UsageError

Points = TypeVar("Points")

#: Distances at which to search a substitute for the best point: dense nearby, up to the length of histories.
_STEPS = sorted({round(1.3**power) for power in range(60)})


class Weights:
    """A weight for each point; the same for all by default."""

    def __init__(self, count: int, each: Sequence[float] | None = None) -> None:
        self.each = [1.0] * count if each is None else list(each)
        if len(self.each) != count or not all(0 <= weight < float("inf") for weight in self.each):
            raise UsageError(f"expected {count} weights, finite and not negative")
        #: The sum of the weights before each point.
        self.before: Sequence[float] = range(count + 1) if each is None else [0.0, *accumulate(self.each)]


@dataclass(frozen=True)
class Ranking:
    """Points by the weight of their ancestors: that of ``points[i]`` is ``before[start + i + 1] - before[start]``."""

    points: Sequence[int]
    before: Sequence[float]
    start: int = 0

    @property
    def total(self) -> float:
        return self.before[self.start + len(self.points)] - self.before[self.start]

    def weighed(self) -> Iterator[tuple[int, float]]:
        """Iterate over all points and weights of their ancestors."""
        low = self.before[self.start]
        for index, point in enumerate(self.points, self.start + 1):
            yield point, self.before[index] - low

    def near(self, weight: float, reach: int | None = None) -> Iterator[tuple[int, float]]:
        """Iterate over points and weights of their ancestors: the nearest to a weight, then ``reach`` others on each side."""
        low, size = self.before[self.start], len(self.points)
        place = bisect_left(self.before, low + weight, self.start + 1, self.start + size) - self.start - 1
        if place and 2 * (low + weight) <= self.before[self.start + place] + self.before[self.start + place + 1]:
            place -= 1
        yield self.points[place], self.before[self.start + place + 1] - low
        for step in _STEPS[:reach]:
            for index in (place - step, place + step):
                if 0 <= index < size:
                    yield self.points[index], self.before[self.start + index + 1] - low


class History(ABC, Generic[Points]):
    """Points 0, 1, … with the indices of their parents. A point is an ancestor of itself."""

    parents: Sequence[Sequence[int]]

    def __len__(self) -> int:
        return len(self.parents)

    @abstractmethod
    def between(self, good: Iterable[int], bad: int) -> Points:
        """Return the ancestors of a bad point that are no ancestors of good points."""

    @abstractmethod
    def split(self, points: Points, at: int) -> tuple[Points, Points]:
        """Return the ancestors of a point among ``points``, and the others."""

    @abstractmethod
    def listed(self, points: Points) -> Sequence[int]:
        """List a set of points in topological order."""

    @abstractmethod
    def weight(self, points: Points, weights: Weights) -> float:
        """Return the sum of the weights of a set of points."""

    @abstractmethod
    def sums(self, values: Sequence[float]) -> Sequence[float]:
        """Return for each point the sum of the values of its ancestors."""

    @abstractmethod
    def ranking(self, points: Points, weights: Weights) -> Ranking:
        """Rank a set of points by the weight of their ancestors in it."""


class LinearHistory(History[range]):
    """A history without branches, for example of releases."""

    def __init__(self, count: int) -> None:
        self.parents = [(), *((index,) for index in range(count - 1))]

    def between(self, good: Iterable[int], bad: int) -> range:
        return range(max(good, default=-1) + 1, bad + 1)

    def split(self, points: range, at: int) -> tuple[range, range]:
        cut = min(max(at + 1, points.start), points.stop)
        return range(points.start, cut), range(cut, points.stop)

    def listed(self, points: range) -> range:
        return points

    def weight(self, points: range, weights: Weights) -> float:
        return weights.before[points.stop] - weights.before[points.start]

    def sums(self, values: Sequence[float]) -> list[float]:
        return list(accumulate(values))

    def ranking(self, points: range, weights: Weights) -> Ranking:
        return Ranking(points, weights.before, points.start)


class GraphHistory(History[int]):
    """A history with merges or several roots.

    The ancestors of a merge are those of one parent, its base, and what it merged: so sums take one pass over the points.
    """

    def __init__(self, parents: Sequence[Sequence[int]]) -> None:
        for point, found in enumerate(parents):
            if any(not 0 <= each < point for each in found):
                raise UsageError(f"point {point} has the parents {list(found)}; expected earlier points")
        self.parents = parents
        self._base, self._merged = _bases(parents)
        self._ancestors = lru_cache(maxsize=512)(self._find_ancestors)

    def between(self, good: Iterable[int], bad: int) -> int:
        found = self._ancestors(bad)
        for each in good:
            found &= ~self._ancestors(each)
        return found

    def split(self, points: int, at: int) -> tuple[int, int]:
        inside = points & self._ancestors(at)
        return inside, points ^ inside

    def listed(self, points: int) -> list[int]:
        return _bits(points)

    def weight(self, points: int, weights: Weights) -> float:
        return sum([weights.each[each] for each in _bits(points)])

    def sums(self, values: Sequence[float]) -> list[float]:
        total: list[float] = []
        for value, base, merged in zip(values, self._base, self._merged, strict=True):
            own = value + total[base] if base >= 0 else value
            total.append(own + sum([values[each] for each in merged]) if merged else own)
        return total

    def ranking(self, points: int, weights: Weights) -> Ranking:
        listed = _bits(points)
        values = [0.0] * len(self)
        for each in listed:
            values[each] = weights.each[each]
        sums = self.sums(values)
        listed.sort(key=sums.__getitem__)
        return Ranking(listed, [0.0, *(sums[each] for each in listed)])

    def _find_ancestors(self, point: int) -> int:
        found, waiting = bytearray(b"0" * (point + 1)), [point]
        found[0] = ord("1")
        while waiting:
            for each in self.parents[waiting.pop()]:
                if found[point - each] == ord("0"):
                    found[point - each] = ord("1")
                    waiting.append(each)
        return int(found, 2)


def _bits(number: int) -> list[int]:
    """List the positions of the bits of a number, the lowest first."""
    text = f"{number:b}"[::-1]
    found, place = [], text.find("1")
    while place >= 0:
        found.append(place)
        place = text.find("1", place + 1)
    return found


def _bases(parents: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return for each point the parent with most ancestors, or -1, and the ancestors that only its other parents have.

    The ancestors of a point are forgotten after its last child: few branches are open at a time.
    """
    last_child = {parent: child for child, found in enumerate(parents) for parent in found}
    ancestors: dict[int, int] = {}
    bases, merged, sizes = list[int](), list[list[int]](), list[int]()
    for point, found in enumerate(parents):
        base = max(found, key=sizes.__getitem__, default=-1)
        known = ancestors[base] if found else 0
        more = 0
        for each in found:
            more |= ancestors[each]
        more &= ~known
        bases.append(base)
        merged.append(_bits(more))
        sizes.append(1 + (sizes[base] if found else 0) + len(merged[-1]))
        if point in last_child:
            ancestors[point] = known | more | 1 << point
        for each in set(found):
            if last_child[each] == point:
                del ancestors[each]
    return bases, merged


def history(parents: Sequence[Sequence[int]]) -> History[range] | History[int]:
    """Return a line where each point has the one before it as its parent, else a graph."""
    line = all(tuple(found) == ((point - 1,) if point else ()) for point, found in enumerate(parents))
    return LinearHistory(len(parents)) if line else GraphHistory(parents)
