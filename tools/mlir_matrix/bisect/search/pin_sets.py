"""Find which components of a bad pin set make a test bad: the smallest sets of them that do.

A subset of the components stands for the good pin set with these components moved to their bad releases: the empty set is
good, the whole is bad. Some subsets cannot be installed, or are unsupported, so their verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.search.search import ProbeVerdict
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import read_pins

#: The most probes of one search.
MOST = 128

Subset = frozenset[str]


@dataclass(frozen=True)
class PinSetsAnswer:
    """The sets of components that make a test bad, and sets with an unknown verdict."""

    #: Bad sets without a smaller bad part: independent causes. The smallest first.
    guilty: tuple[Subset, ...]
    #: Sets with an unknown verdict that may be a smaller cause, or one more cause.
    unknown: tuple[Subset, ...]
    #: True if every cause is found, except unknown ones. False while probes remain, and if they reached ``MOST``.
    complete: bool


class PinSets:
    """A search for the minimal bad subsets of components.

    First, probe each component alone. If none is bad, probe the whole without each component, and the necessary components alone,
    until no component can be left out. Last, probe the whole without the found causes, to find further ones. If every subset has
    a known verdict, one cause of k among n components takes at most 2n + k + 2 probes in four rounds. No search takes more than
    ``MOST``. A subset of a good set counts as good without a probe, unless observations show that one component repairs the effect
    of another. Probes always confirm that a cause is minimal.
    """

    def __init__(self, components: Sequence[str]) -> None:
        if len(set(components)) < 2:
            raise UsageError(f"a search among pins takes two or more components, not {len(set(components))}")
        self._order = {name: number for number, name in enumerate(dict.fromkeys(components))}
        self._whole = frozenset(self._order)
        self._seen: dict[Subset, ProbeVerdict] = {frozenset(): ProbeVerdict.GOOD, self._whole: ProbeVerdict.BAD}
        #: Whether one component repairs the effect of another. Then a part of a good subset can be bad.
        self._repairs = False

    def observe(self, subset: Iterable[str], verdict: ProbeVerdict) -> None:
        """Add an observation of any subset, also of one that ``next`` did not return. Raise UsageError for the two ends."""
        key = frozenset(subset)
        if not key <= self._whole:
            raise UsageError(f"unknown component {min(key - self._whole)}; expected one of {', '.join(self._order)}")
        if key in (frozenset(), self._whole) and verdict is not self._seen[key]:
            raise UsageError(f"the {'bad' if key else 'good'} pin set is {verdict}, which contradicts its name")
        self._seen[key] = verdict
        self._repairs = any(bad < good for bad in self._all(ProbeVerdict.BAD) for good in self._all(ProbeVerdict.GOOD))

    def next(self, count: int = 1) -> list[Subset]:
        """Return up to ``count`` subsets to probe at once; none if no further probe is needed or useful."""
        left = MOST + 2 - len(self._seen)
        return self._missing()[: max(0, min(count, left))]

    def answer(self) -> PinSetsAnswer:
        """Return the answer so far."""
        guilty = _minimal(self._all(ProbeVerdict.BAD))
        unknown = [
            each
            for each, verdict in self._seen.items()
            if verdict is ProbeVerdict.CANNOT_TELL
            and not self._is_good(each)
            and not any(one <= each for one in guilty)
        ]
        return PinSetsAnswer(
            guilty=tuple(guilty),
            unknown=tuple(sorted(unknown, key=self._rank)),
            complete=not self._missing(),
        )

    def _rank(self, subset: Subset) -> tuple[int, list[int]]:
        return len(subset), sorted(self._order[name] for name in subset)

    def _all(self, verdict: ProbeVerdict) -> list[Subset]:
        """Return the subsets of a verdict, the smallest first."""
        return sorted((each for each, seen in self._seen.items() if seen is verdict), key=self._rank)

    def _is_good(self, subset: Subset) -> bool:
        """Return whether a subset is good, or part of a good one."""
        seen = self._seen.get(subset)
        if seen is ProbeVerdict.GOOD or self._repairs:
            return seen is ProbeVerdict.GOOD
        return any(subset < each for each, verdict in self._seen.items() if verdict is ProbeVerdict.GOOD)

    def _is_open(self, subset: Subset) -> bool:
        """Return whether a probe of a subset can give new information."""
        return subset not in self._seen and not self._is_good(subset)

    def _missing(self) -> list[Subset]:
        return next(filter(None, map(self._unseen, self._batches())), [])

    def _unseen(self, batch: Iterable[Subset]) -> list[Subset]:
        return sorted({each for each in batch if each not in self._seen}, key=self._rank)

    def _batches(self) -> Iterator[Iterable[Subset]]:
        """Yield batches of subsets to probe. The generator continues after all of a batch were observed."""
        singles = [frozenset([name]) for name in self._order]
        yield singles
        causes = [each for each in singles if self._seen[each] is ProbeVerdict.BAD]
        while True:
            # The largest first, because probes of its parts do not change that choice.
            bad = reversed(self._all(ProbeVerdict.BAD))
            rest = next((each for each in bad if not any(cause <= each for cause in causes)), None)
            if rest is not None:
                causes.append((yield from self._reduce(rest)))
                continue
            others = [self._whole - each for each in _hitting(causes)]
            batch = [each for each in others if self._is_open(each)]
            if not batch:
                return
            yield batch

    def _reduce(self, subset: Subset) -> Generator[Iterable[Subset], None, Subset]:
        """Yield batches until a part of a bad subset is minimal. Return that part."""
        while True:
            parts = {name: subset - {name} for name in sorted(subset, key=self._order.__getitem__)}
            yield filter(self._is_open, parts.values())
            smaller = [part for part in parts.values() if self._seen.get(part) is ProbeVerdict.BAD]
            if smaller:
                necessary = frozenset(name for name, part in parts.items() if self._is_good(part))
                if len(necessary) > 1:
                    yield [necessary]
                subset = necessary if self._seen.get(necessary) is ProbeVerdict.BAD else smaller[0]
                continue
            yield parts.values()
            if all(self._seen[part] is ProbeVerdict.GOOD for part in parts.values()):
                return subset
            found = next((part for part in parts.values() if self._seen[part] is ProbeVerdict.BAD), None)
            if found is None:
                found = yield from self._grow(subset)
            if found is None:
                return subset
            subset = found

    def _grow(self, subset: Subset) -> Generator[Iterable[Subset], None, Subset | None]:
        """Yield the parts of a subset by size, if larger parts have unknown verdicts. Return a bad part, or None."""
        for size in range(2, len(subset) - 1):
            parts = map(frozenset, combinations(sorted(subset), size))
            yield islice(filter(self._is_open, parts), MOST)
            found = next((part for part in self._all(ProbeVerdict.BAD) if part < subset), None)
            if found is not None:
                return found
        return None


def _minimal(subsets: Iterable[Subset]) -> list[Subset]:
    """Return the sets that contain no other one."""
    found: list[Subset] = []
    for each in sorted(subsets, key=len):
        if not any(one <= each for one in found):
            found.append(each)
    return found


def _hitting(causes: Sequence[Subset]) -> list[Subset]:
    """Return the minimal sets that have a component of each cause."""
    found = [frozenset[str]()]
    for cause in causes:
        found = _minimal(each if each & cause else each | {name} for each in found for name in cause)
    return found


def moved_pins(catalog: Catalog, good: str, bad: str) -> dict[str, tuple[str, str]]:
    """Read ``llvm=18,jax=0.9.1`` for both ends; return the releases of each component that differs. Raise UsageError."""
    given = {"--good": good, "--bad": bad}
    ends = {option: read_pins(catalog, text.split(","), option) for option, text in given.items()}
    for (one, pins), (other, others) in permutations(ends.items()):
        for name in pins.keys() - others.keys():
            usual = catalog.default_pins("")[name]
            raise UsageError(f"{one} pins {name} and {other} does not; add it there, e.g. {name}={usual}")
    moved = {name: (release, ends["--bad"][name]) for name, release in ends["--good"].items()}
    found = {name: pair for name, pair in moved.items() if pair[0] != pair[1]}
    if not found:
        same = ",".join(f"{name}={release}" for name, (release, _) in moved.items())
        raise UsageError(f"--good {good} and --bad {bad} are the same pin set, {same}; change a release in one of them")
    return found
