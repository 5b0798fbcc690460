"""Conclude which part of a failing test is wrong from what other continuations compute of its levels.

A test is a chain of parts: the program, its importer, steps, and the target. A level is what a part gives. A continuation
takes a level to outputs by other parts than the test does. This module runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations


class Answer(StrEnum):
    """What a continuation computes of a level."""

    RIGHT = "right"
    #: Wrong, and equal to what the failing test computes, within the test's bounds; or its run fails in the same way.
    SAME = "wrong alike"
    #: Wrong in another way.
    OTHER = "wrong"
    #: No outputs that can be compared.
    NONE = "none"


WRONG = (Answer.SAME, Answer.OTHER)


@dataclass(frozen=True)
class Part:
    """A part of the way from a program to outputs."""

    name: str
    #: Equal for two parts that do the same by the same release.
    identity: str
    #: The name of the step and those of its passes: what a part may have in common with other steps and releases.
    uses: frozenset[str] = frozenset()
    #: Whether it only reads what is written, so that it is not wrong if the program is right.
    reads: bool = False
    #: Whether it is a step of another catalog than this repository: its mistake, if it has one, is there with each release.
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class LevelObservation:
    """The answer of a continuation at a level."""

    continuation: str
    #: The index of the part that gives the level.
    level: int
    #: The parts that follow the level.
    parts: tuple[Part, ...]
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The parts that may be wrong."""

    #: Indices of parts.
    suspects: tuple[int, ...]
    #: By part that is cleared: the continuations that clear it.
    cleared: Mapping[int, tuple[str, ...]]
    #: Those of them that are cleared by related continuations only.
    weakly: tuple[int, ...] = ()
    #: Levels on which continuations contradict each other that can both take the program.
    contested: tuple[int, ...] = ()

    @property
    def certain(self) -> bool:
        """Return whether there is one suspect, and two independent continuations clear each other part.

        It is never certain that the program is wrong: all that take it may read it in the same wrong way.
        """
        return self.settled and self.suspects != (0,)

    @property
    def settled(self) -> bool:
        """Return whether there is one suspect, the program included."""
        return len(self.suspects) == 1 and not (self.weakly or self.contested)


def conclude(parts: Sequence[Part], observations: Sequence[LevelObservation], *, run_fails: bool = False) -> Conclusion:
    """Return the parts that no observation clears. ``parts``: those of the test up to where it fails.

    ``run_fails``: the test ends when it runs. To fail in the same way says less than equal numbers, because two faults may crash
    alike. It counts only if nothing is right.

    Where continuations contradict each other, a part is a suspect if either side suspects it: IR whose behaviour is undefined
    can be right by one code generator and wrong by another.
    """
    if run_fails:
        if all(seen.answer != Answer.RIGHT for seen in observations):
            return _without_right(parts, observations)
        observations = [
            replace(seen, answer=Answer.OTHER) if seen.answer == Answer.SAME else seen for seen in observations
        ]
    able = {seen for seen in observations if seen.answer in WRONG and _was_right(seen, observations)}
    # A level that is right shows that those before it are.
    last_right = max((seen.level for seen in observations if seen.answer == Answer.RIGHT), default=-1)
    first_wrong = min((seen.level for seen in able), default=len(parts))
    # Others that are wrong where one is right have a fault of their own, maybe that of the test.
    sides = [[seen for seen in observations if seen.answer == Answer.RIGHT or seen.level > last_right]]
    if first_wrong <= last_right:
        sides.append(
            [
                seen
                for seen in observations
                if seen in able or (seen.answer == Answer.RIGHT and seen.level < first_wrong)
            ]
        )
    clearing: dict[int, list[LevelObservation]] = {}
    suspects = set[int]()
    for side in sides:
        own: dict[int, list[LevelObservation]] = {}
        for seen in side:
            for index in _cleared(parts, seen, able=seen in able):
                own.setdefault(index, []).append(seen)
        suspects |= set(range(len(parts))) - own.keys()
        clearing |= own
    weakly = tuple(sorted(index for index, each in clearing.items() if not _suffice(each)))
    cleared = {index: tuple(dict.fromkeys(seen.continuation for seen in each)) for index, each in clearing.items()}
    return Conclusion(
        suspects=tuple(sorted(suspects)),
        cleared=dict(sorted(cleared.items())),
        weakly=weakly,
        contested=tuple(range(first_wrong, last_right + 1)),
    )


def _without_right(parts: Sequence[Part], observations: Sequence[LevelObservation]) -> Conclusion:
    """Conclude from runs of which none is right.

    What fails in the same way with two independent continuations that do not have a part clears this part.
    """
    same = [seen for seen in observations if seen.answer == Answer.SAME]
    cleared = {}
    for index, part in enumerate(parts):
        without = [seen for seen in same if seen.level < index and not any(_shares(part, each) for each in seen.parts)]
        if part.reads or any(_independent(*pair) for pair in combinations(without, 2)):
            cleared[index] = tuple(dict.fromkeys(seen.continuation for seen in without))
    return Conclusion(suspects=tuple(index for index in range(len(parts)) if index not in cleared), cleared=cleared)


def _shares(part: Part, other: Part) -> bool:
    """Return whether two parts have what may be wrong in the first one."""
    return part.identity == other.identity or (part.own and not part.uses.isdisjoint(other.uses))


def _was_right(seen: LevelObservation, observations: Iterable[LevelObservation]) -> bool:
    """Return whether a continuation was right from an earlier level, so that its parts can take this program."""
    own = {part.identity for part in seen.parts}
    return any(
        other.continuation == seen.continuation and other.answer == Answer.RIGHT and other.level < seen.level
        and own <= {part.identity for part in other.parts}
        for other in observations
    )  # fmt: skip


def _cleared(parts: Sequence[Part], seen: LevelObservation, *, able: bool) -> Iterator[int]:
    """Yield the parts that cannot be wrong if an observation is true; ``able``: the continuation was right before."""
    if seen.answer == Answer.RIGHT:
        yield from range(min(seen.level + 1, len(parts)))
        last = len(parts) - 1
        # What links, loads and calls a kernel does not depend on the code in it.
        if seen.level < last and parts[last].identity == seen.parts[-1].identity:
            yield last
    elif seen.answer in WRONG:
        own = frozenset[str]().union(*(part.uses for part in seen.parts))
        for index in range(seen.level + 1, len(parts)):
            if able or (seen.answer == Answer.SAME and own.isdisjoint(parts[index].uses)):
                yield index


def _suffice(clearing: Sequence[LevelObservation]) -> bool:
    """Return whether observations that clear a part come from two independent continuations.

    A continuation that is wrong as the test is agrees with the test's own parts, which are the second one.
    """
    if any(seen.answer == Answer.SAME for seen in clearing):
        return True
    return any(_independent(*pair) for pair in combinations(clearing, 2))


def _independent(one: LevelObservation, other: LevelObservation) -> bool:
    """Return whether two continuations have no part in common but the target; of those that are right, no first part.

    Only what takes a wrong level could make it right again.
    """
    if one.answer == other.answer == Answer.RIGHT:
        return one.continuation != other.continuation and one.parts[0].identity != other.parts[0].identity
    own = {part.identity for part in one.parts[:-1]}
    return one.continuation != other.continuation and own.isdisjoint(part.identity for part in other.parts[:-1])
