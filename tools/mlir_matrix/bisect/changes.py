"""Find where behaviour changes along an axis that was observed point by point."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Behaviour = TypeVar("Behaviour")


@dataclass(frozen=True, kw_only=True)
class Change(Generic[Behaviour]):
    """Two neighbours among the known points that behave differently."""

    #: The last point before, and the first one after.
    before: int
    after: int
    was: Behaviour
    becomes: Behaviour

    @property
    def between(self) -> range:
        """The points between, of which nothing is known: each may have made the change, as may ``after``."""
        return range(self.before + 1, self.after)


def changes(
    behaviours: Sequence[Behaviour | None], alike: Callable[[Behaviour, Behaviour], bool] = operator.eq
) -> list[Change[Behaviour]]:
    """Return every change along an axis; None is a point of which nothing is known.

    ``alike`` need not be transitive: a point that is like what is before and after a change may have either behaviour.
    """
    found: list[Change[Behaviour]] = []
    #: What was seen since the last change.
    since: list[tuple[int, Behaviour]] = []
    for after, becomes in enumerate(behaviours):
        if becomes is None:
            continue
        others = [(point, was) for point, was in since if not alike(was, becomes)]
        if others:
            before, was = others[-1]
            found.append(Change(before=before, after=after, was=was, becomes=becomes))
            since = []
        since.append((after, becomes))
    return found
