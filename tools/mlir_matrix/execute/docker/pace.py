"""Whether another container of an environment would pay: what starting one took, against what waits."""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds that an action takes where none has been seen yet.
_TYPICAL_S = 0.02


@dataclass
class Pace:
    """What has been seen of an environment's containers."""

    #: From being started to the first answer.
    start_s: float = 0.0
    _actions: int = 0
    _seconds: float = 0.0

    def note(self, seconds: float, *, first: bool) -> None:
        """An action has been answered; ``first``: its container was started for it."""
        if first:
            self.start_s = seconds
        else:
            self._actions += 1
            self._seconds += seconds

    def pays(self, waiting: int, slots: int) -> bool:
        """Whether those that wait would be waiting for longer than another container takes to start."""
        mean = self._seconds / self._actions if self._actions else _TYPICAL_S
        return waiting * mean / max(1, slots) > self.start_s
