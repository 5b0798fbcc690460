"""A clock that stands still until a test moves it."""

from __future__ import annotations


class Clock:
    """Stands in for ``time.monotonic``; ``now`` is what it shows, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
