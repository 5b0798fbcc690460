"""Opposing tests: pairs of IR tests of which every change passes exactly one. Pure: observations in, pairs out.

Two ways show it. *By their input*: two tests give the same IR to steps between the same kinds, and each output that was made of it
satisfies exactly one of the two. *By releases*: under each of several releases exactly one of two tests passes, and not always
the same one. Either way nobody can make both pass, and each looks right by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from mlir_matrix.catalog.models.base import Step

if TYPE_CHECKING:
    pass

#: Test that made an output, test whose directives it was held against: whether it satisfies them.
Held = Mapping[tuple[str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two IR tests, and what shows that they oppose (``input``, ``releases``) or repeat (``repeated``) each other."""

    tests: tuple[str, str]
    how: str
    #: Where it shows: names of releases, or of documents of results.
    where: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """A value that ``json`` can write."""
        return {"tests": list(self.tests), "how": self.how, "where": list(self.where)}


def candidates(steps: Mapping[str, Step]) -> list[tuple[str, str]]:
    """The pairs of tests whose steps lead from a kind to a kind in common; ``steps``: that of each test.

    What brings torch to linalg need not agree with what brings it to TOSA.
    """
    ways = {test: {(kind, step.gives or kind) for kind in step.accepts} for test, step in steps.items()}
    return [pair for pair in combinations(sorted(steps), 2) if not ways[pair[0]].isdisjoint(ways[pair[1]])]


def by_input(pairs: Iterable[tuple[str, str]], inputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pairs whose IR is the same; ``inputs`` has a digest of it for each test whose IR could be read."""
    return [pair for pair in pairs if pair[0] in inputs and inputs[pair[0]] == inputs.get(pair[1])]


def contradict(pair: tuple[str, str], held: Held) -> bool:
    """Whether each output that was made of the pair's input satisfies exactly one of the two. No output shows nothing."""
    seen = [maker for maker in pair if (maker, pair[0]) in held and (maker, pair[1]) in held]
    return bool(seen) and all(held[maker, pair[0]] != held[maker, pair[1]] for maker in seen)


def repeat(pair: tuple[str, str], held: Held) -> bool:
    """Whether two tests of one step could be one: the output satisfies both."""
    same_step = len({test.split("/")[1] for test in pair}) == 1
    return same_step and all(held.get((maker, test), False) for maker in pair for test in pair)


def alternate(pair: tuple[str, str], observed: Sequence[Mapping[str, bool]]) -> bool:
    """Whether exactly one of the two passes wherever both were seen, and each of them somewhere."""
    seen = {(passed[pair[0]], passed[pair[1]]) for passed in observed if pair[0] in passed and pair[1] in passed}
    return seen == {(True, False), (False, True)}


def found(
    pairs: Iterable[tuple[str, str]],
    observed: Mapping[str, Mapping[str, bool]],
    inputs: Mapping[str, Mapping[str, str]],
    held: Mapping[str, Held],
) -> list[Pair]:
    """All that oppose or repeat each other; the mappings have what was seen by the name of where that was."""
    result = []
    for pair in pairs:
        same = [where for where in inputs if by_input([pair], inputs[where])]
        opposed = tuple([where for where in same if contradict(pair, held[where])])
        repeated = tuple([where for where in same if repeat(pair, held[where])])
        if opposed:
            result.append(Pair(tests=pair, how="input", where=opposed))
        elif alternate(pair, list(observed.values())):
            result.append(Pair(tests=pair, how="releases", where=tuple(observed)))
        elif repeated:
            result.append(Pair(tests=pair, how="repeated", where=repeated))
    return result
