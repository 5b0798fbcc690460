"""What was made already is not made again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class Once:
    """Makes a thing the first time that its key is asked for. What keys stand for is the caller's affair."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def __call__(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The thing of a key; the same object each time."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
