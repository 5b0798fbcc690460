"""Find where behaviour changes along an axis that was observed point by point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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


def changes(behaviours: Sequence[Behaviour | None]) -> list[Change[Behaviour]]:
    """Return every change along an axis; None is a point of which nothing is known."""
    known = [(point, each) for point, each in enumerate(behaviours) if each is not None]
    return [
        Change(before=before, after=after, was=was, becomes=becomes)
        for (before, was), (after, becomes) in itertools.pairwise(known)
        if was != becomes
    ]
