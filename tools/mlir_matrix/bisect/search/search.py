"""Search a history for the change that made a test bad: choose the next points to probe, and compute probabilities.

One change, the culprit, makes itself and all its descendants bad. Observations divide the candidates into blocks whose members
have the same observed descendants. So all members of a block are equally likely, apart from their weights. The state depends only
on the observations, and not on their order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import cycle, islice
from math import exp, inf, lgamma, log, log2
from typing import Generic, NamedTuple

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.search.history import History, LinearHistory, Points, Weights

#: After this many adjacent points that cannot be probed, no further point of that run is tried.
MANY = 16
#: Blocks with a smaller share of the probability, and points with a smaller gain of information, are ignored.
_NEGLIGIBLE = 1e-9
#: How many points of a large block to compare.
_SAMPLE = 500


class ProbeVerdict(StrEnum):
    """The result of a probe of a point."""

    GOOD = "good"
    BAD = "bad"
    CANNOT_TELL = "cannot-tell"


class ContradictionError(UsageError):
    """An observation that contradicts the earlier ones, if there is a single change."""

    def __init__(self, point: int, verdict: ProbeVerdict) -> None:
        super().__init__(
            f"point {point} is {verdict}, which no single change explains together with earlier observations; "
            "the test is flaky, or changed more than once"
        )
        self.point = point
        self.verdict = verdict


@dataclass(frozen=True)
class SearchAnswer:
    """The points that can be the culprit, the most likely first, and the probability that one of them is."""

    candidates: Sequence[int]
    confidence: float


class _Block(NamedTuple, Generic[Points]):
    """Candidates with the same observed descendants, and the counts of observations of those."""

    members: Points
    bad: int = 0
    good: int = 0


class _WeightedBlock(NamedTuple, Generic[Points]):
    """A block with its posterior."""

    members: Points
    #: The probability that the culprit is in it.
    share: float
    #: Posterior by weight.
    scale: float
    #: The probability that a bad point shows «bad», if the culprit is here, and the entropy of that.
    rate: float
    entropy: float


class Search(Generic[Points]):
    """A search for the culprit among the ancestors of a bad point that are no ancestors of good ones.

    ``prior``: a weight for each point. ``bad``: by default the last point. ``repeats``: how many further observations of the
    culprit and the points before it an answer needs, when each has shown its verdict once.
    """

    def __init__(
        self,
        history: History[Points],
        prior: Sequence[float] | None = None,
        *,
        good: Iterable[int] = (),
        bad: int | None = None,
        rates: Rates | None = None,
        confidence: float = 0.95,
        repeats: int = 1,
    ) -> None:
        self.history = history
        self.rates = rates or Rates()
        self.confidence = confidence
        self.repeats = repeats
        self._weights = Weights(len(history), prior)
        self._good, self._bad = frozenset(good), len(history) - 1 if bad is None else bad
        for point in (*self._good, self._bad):
            self._check(point)
        if not 0 < confidence < 1:
            raise UsageError(f"confidence {confidence}: expected a number between 0 and 1")
        candidates = history.between(self._good, self._bad)
        if not candidates or not history.weight(candidates, self._weights):
            raise UsageError("no point between the good and the bad end can be the culprit")
        self._candidates = candidates
        #: In the order of the candidates on a line.
        self._blocks: Sequence[_Block[Points]] = [_Block(candidates)]
        self._parts = self._posterior(self._blocks)
        #: How often each point was good and bad.
        self._counts: dict[int, list[int]] = {}
        self._skips = _Skips(self._good | {self._bad})

    def observe(self, point: int, verdict: ProbeVerdict) -> None:
        """Add an observation. If no single change explains it, ignore it and raise ContradictionError."""
        self._check(point)
        if verdict is ProbeVerdict.CANNOT_TELL:
            self._skips.skip(point)
            return
        blocks = self._add(self._blocks, point, verdict is ProbeVerdict.BAD)
        parts = self._posterior(blocks)
        if not parts:
            raise ContradictionError(point, verdict)
        self._blocks, self._parts = blocks, parts
        self._counts.setdefault(point, [0, 0])[verdict is ProbeVerdict.BAD] += 1
        self._skips.tell(point)

    def next(self, count: int = 1) -> list[int]:
        """Return up to ``count`` points to probe at once; none if no further probe is needed or likely to give information.

        A point of a flaky search, or one to verify, can be there several times.
        """
        if certain := self._certain():
            found = self._divide(certain, count)
            if found or self.rates.deterministic == 1:
                return found
        best = max(self._parts, key=lambda part: part.share)
        if best.share >= self._enough and not self._divide(best.members, 1):
            return self._verify(best.members, count)
        return self._learn(count)

    def answer(self) -> SearchAnswer:
        """Return the smallest set of candidates that has the confidence; of a certain answer, all that remain."""
        posterior = self.posterior()
        best = max(self._parts, key=lambda part: part.share)
        certain = self._certain()
        if certain or best.share >= self._enough:
            chosen = [point for point in self.history.listed(certain or best.members) if posterior[point]]
            chosen.sort(key=lambda point: -posterior[point])
            return SearchAnswer(chosen, min(1.0, sum(posterior[point] for point in chosen)))
        chosen, sum_of_chosen = [], 0.0
        for point in sorted(range(len(posterior)), key=lambda point: -posterior[point]):
            if sum_of_chosen >= self.confidence or not posterior[point]:
                break
            chosen.append(point)
            sum_of_chosen += posterior[point]
        return SearchAnswer(chosen, min(1.0, sum_of_chosen))

    def posterior(self) -> list[float]:
        """Return for each point the probability that it is the culprit."""
        found = [0.0] * len(self.history)
        for part in self._parts:
            for point in self.history.listed(part.members):
                found[point] = part.scale * self._weights.each[point]
        return found

    @property
    def left(self) -> int:
        """Return how many points are as likely to be the culprit as the best ones."""
        certain = self._certain()
        best = certain if certain else max(self._parts, key=lambda part: part.share).members
        return len(self.history.listed(best))

    @property
    def _enough(self) -> float:
        """Return the probability of a block at which it is the answer.

        The distribution of a flaky test's rate is a guess, so half of the allowed error probability is reserved for that.
        """
        return (1 + self.confidence) / 2 if self.flaky else self.confidence

    @property
    def flaky(self) -> bool:
        """Return whether rates or observations show that bad points do not always fail, or that good ones do."""
        return not self._certain()

    def _check(self, point: int) -> None:
        if not 0 <= point < len(self.history):
            raise UsageError(f"unknown point {point}; expected one from 0 to {len(self.history) - 1}")

    def _add(self, blocks: Sequence[_Block[Points]], point: int, bad: bool) -> list[_Block[Points]]:
        """Return the blocks with one more observation."""
        found = []
        for block in blocks:
            inside, outside = self.history.split(block.members, point)
            if inside:
                found.append(_Block(inside, block.bad + bad, block.good + (not bad)))
            if outside and not bad:
                found.append(_Block(outside, block.bad, block.good))
        return found

    def _certain(self) -> Points | None:
        """Return the candidates that remain if bad points always show it and good ones never, or nothing."""
        if not self.rates.deterministic:
            return None
        found = next((block.members for block in self._blocks if not block.good), None)
        return found if found and self.history.weight(found, self._weights) else None

    def _posterior(self, blocks: Sequence[_Block[Points]]) -> list[_WeightedBlock[Points]]:
        """Return the posterior of the blocks that are possible."""
        found = []
        for block in blocks:
            likelihood, rate, entropy = self.rates.outlook(block.bad, block.good)
            weight = self.history.weight(block.members, self._weights)
            if likelihood > -inf and weight:
                found.append((block.members, likelihood, weight, rate, entropy))
        most = max([each[1] for each in found], default=0.0)
        scales = [exp(each[1] - most) for each in found]
        total = sum([scale * each[2] for scale, each in zip(scales, found, strict=True)])
        return [
            _WeightedBlock(members, scale / total * weight, scale / total, rate, entropy)
            for scale, (members, _, weight, rate, entropy) in zip(scales, found, strict=True)
            if scale * weight > _NEGLIGIBLE * total
        ]

    def _divide(self, members: Points, count: int) -> list[int]:
        """Return points whose ancestors divide the weight of a block evenly, none where no point divides it."""
        ranking = self.history.ranking(members, self._weights)
        total, step = ranking.total, ranking.total / (count + 1)
        chosen: list[int] = []
        for number in range(count, 0, -1):
            near = ranking.near(number * step, None if self._skips else 2)
            chosen += self._best(
                (point, entropy_of((weight / step - number + 1) / 2))
                for point, weight in near
                if _divides(weight, total) and point not in chosen
            )
        if chosen or not self._skips:
            return chosen
        # No point that can be probed divides the block evenly.
        return self._best(
            (point, entropy_of(weight / total)) for point, weight in ranking.weighed() if _divides(weight, total)
        )

    def _best(self, gains: Iterable[tuple[int, float]]) -> list[int]:
        """Return the point with the largest product of gain and chance that it can be probed, if any has a gain."""
        rated = ((gain * self._skips.chance(point), -point) for point, gain in gains if gain > _NEGLIGIBLE)
        gain, point = max(rated, default=(0.0, 0))
        return [-point] if gain else []

    def _verify(self, members: Points, count: int) -> list[int]:
        """Return the culprit and the points before it, until each has shown its verdict, and one of them again."""
        ranking = self.history.ranking(members, self._weights)
        inside = set(ranking.points)
        tops = [point for point, weight in ranking.weighed() if not _divides(weight, ranking.total)]
        before = {parent for point in inside for parent in self.history.parents[point]} - inside
        wanted = {point: True for point in tops[-1:] if self._skips.chance(point)}
        wanted |= {point: False for point in sorted(before) if self._skips.chance(point) and self._is_candidate(point)}
        seen = {point: self._counts.get(point, [0, 0]) for point in wanted}
        missing = [point for point, bad in wanted.items() if not seen[point][bad] and point != self._bad]
        if missing or sum(map(sum, seen.values())) + (self._bad in seen) >= len(wanted) + self.repeats:
            return missing[:count]
        gains = {point: gain for point, _, gain in self._outlooks(self._parts)}
        order = sorted(wanted, key=lambda point: (sum(seen[point]), -gains.get(point, 0.0)))
        return list(islice(cycle(order), count))

    def _is_candidate(self, point: int) -> bool:
        """Return whether a point was a candidate when the search began."""
        return bool(self.history.split(self._candidates, point)[0])

    def _learn(self, count: int) -> list[int]:
        """Return the points with the largest expected information, each given the likely verdicts of those before it."""
        blocks, parts, chosen = self._blocks, self._parts, list[int]()
        while len(chosen) < count:
            outlooks = {point: (bad, gain) for point, bad, gain in self._outlooks(parts)}
            best = self._best((point, gain) for point, (_, gain) in outlooks.items())
            if not best:
                break
            chosen += best
            if len(chosen) < count:
                blocks = self._add(blocks, best[0], outlooks[best[0]][0] > 0.5)
                parts = self._posterior(blocks)
        return chosen

    def _outlooks(self, parts: Sequence[_WeightedBlock[Points]]) -> Iterator[tuple[int, float, float]]:
        """Iterate over points with the probability that they show «bad», and the information that a probe gives, in bits.

        Do not iterate over all points: on a line, over the best of each block; in a graph, over some hundreds of each block.
        """
        is_line = isinstance(self.history, LinearHistory)
        if not is_line:
            for point, bad, entropy in self._sums(parts):
                yield point, bad, entropy_of(bad) - entropy
            return
        bad = entropy = 0.0
        for part in parts:
            # The information is a concave function of the share of the block's members that are ancestors.
            slope = max(part.rate, 1e-3)
            share = (1 / (1 + 2 ** (part.entropy / slope)) - bad) / slope
            ranking = self.history.ranking(part.members, self._weights)
            # In a large block, neighbours of the best point are as good.
            reach = None if self._skips else int(len(ranking.points) < 100)
            for point, weight in ranking.near(share / part.scale, reach):
                more = part.scale * weight
                shown = bad + more * part.rate
                yield point, shown, entropy_of(shown) - (entropy + more * part.entropy)
            bad, entropy = bad + part.share * part.rate, entropy + part.share * part.entropy

    def _sums(self, parts: Sequence[_WeightedBlock[Points]]) -> Iterator[tuple[int, float, float]]:
        """Iterate over points with the sums of shares that show «bad», and of entropies, of their ancestors."""
        shown, entropies = ([0.0] * len(self.history) for _ in range(2))
        chosen = list[int]()
        for part in parts:
            members = self.history.listed(part.members)
            chosen += members[:: -max(1, len(members) // _SAMPLE)]
            for point in members:
                share = part.scale * self._weights.each[point]
                shown[point], entropies[point] = share * part.rate, share * part.entropy
        bad, entropy = self.history.sums(shown), self.history.sums(entropies)
        for point in chosen:
            yield point, bad[point], entropy[point]


class _Skips:
    """Points that cannot be probed, and the probability that others can.

    If a point cannot be built, its neighbours often cannot, for the same reason. A run of such points is assumed to continue for
    its own length with the probability 1/2. A run of many such points is assumed to contain no other point.
    """

    def __init__(self, told: Iterable[int]) -> None:
        self._told = sorted(told)
        self._skipped: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._skipped)

    def skip(self, point: int) -> None:
        if point not in self._skipped:
            insort(self._skipped, point)

    def tell(self, point: int) -> None:
        if point not in self._told:
            insort(self._told, point)

    def chance(self, point: int) -> float:
        """Return the probability that a point can be probed."""
        place = bisect_left(self._skipped, point)
        if not self._skipped or (place < len(self._skipped) and self._skipped[place] == point):
            return 0.0 if self._skipped else 1.0
        told = bisect_left(self._told, point)
        if told < len(self._told) and self._told[told] == point:
            return 1.0
        # The run around the point is that of the skipped points first … last, between points that were probed.
        first = bisect_left(self._skipped, self._told[told - 1]) if told else 0
        last = bisect_left(self._skipped, self._told[told]) if told < len(self._told) else len(self._skipped)
        if first < place < last and last - first >= MANY:
            return 0.0
        goes_on = 0.0
        if first < place:
            nearest = self._skipped[place - 1]
            goes_on = _goes_on(point - nearest, nearest - self._skipped[first] + 1, place - first)
        if place < last:
            nearest = self._skipped[place]
            goes_on = max(goes_on, _goes_on(nearest - point, self._skipped[last - 1] - nearest + 1, last - place))
        return 1 - goes_on


def _goes_on(distance: int, extent: int, skipped: int) -> float:
    """Return the probability that a run continues for a distance. Distant skipped points do not form a run."""
    length: int = min(extent, 4 ** (skipped - 1))
    return length / (length + distance)


def _divides(weight: float, total: float) -> bool:
    """Return whether ancestors have a part of the weight but not all, apart from rounding."""
    return 0 < weight < total * (1 - 1e-9)


@dataclass(frozen=True)
class Rates:
    """The rates at which points show «bad».

    With the probability ``deterministic``, a bad point always shows it; otherwise at an unknown rate with a Beta distribution. A
    third of the default distribution is below 0.01: if low rates were less likely, searches would often end too early.
    """

    deterministic: float = 0.999
    alpha: float = 0.25
    beta: float = 1.0
    _outlooks: dict[tuple[int, int], tuple[float, float, float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not (0 <= self.deterministic <= 1 and self.alpha > 0 and self.beta > 0):
            raise UsageError(f"{self}: expected probabilities; alpha and beta above 0")

    def outlook(self, bad: int, good: int) -> tuple[float, float, float]:
        """Return the prediction for a further observation from observations of bad points.

        It is the logarithm of the observations' probability, the probability of «bad» in a further one, and its entropy.
        """
        found = self._outlooks.get((bad, good))
        if not found:
            likelihood = self._log_likelihood(bad, good)
            rate = exp(self._log_likelihood(bad + 1, good) - likelihood) if likelihood > -inf else 0.0
            found = self._outlooks[bad, good] = likelihood, rate, entropy_of(rate)
        return found

    def _log_likelihood(self, bad: int, good: int) -> float:
        a, b = self.alpha, self.beta
        unknown = -inf
        if self.deterministic < 1:
            unknown = log(1 - self.deterministic) + lgamma(a + bad) + lgamma(b + good) - lgamma(a + b + bad + good)
            unknown += lgamma(a + b) - lgamma(a) - lgamma(b)
        return unknown if good or not self.deterministic else log(self.deterministic + exp(unknown))


FLAKY = Rates(deterministic=0.0)


def entropy_of(probability: float) -> float:
    """Return the entropy of a verdict in bits."""
    if not 0 < probability < 1:
        return 0.0
    return -probability * log2(probability) - (1 - probability) * log2(1 - probability)
