"""How long a service that executes is waited for.

An action whose properties no worker has waits for one, and services tell nobody so. Nor can it be told from a service that is
busy with what others sent, which is why an hour passes before it is given up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

#: Seconds without any action done after which people are told, and again after as many.
TELL_S = 120.0
#: Seconds without any action done after which a run ends.
GIVE_UP_S = 3600.0


class Patience:
    """Knows when the service last did something."""

    def __init__(self, service: str, properties: Sequence[tuple[str, str]]) -> None:
        """``service``: its address; empty for none, which nobody waits for."""
        self._service = service
        self._properties = ", ".join(f"{key}={value}" for key, value in properties)
        self._heard = self._told = time.monotonic()

    def heard(self) -> None:
        """An action is done."""
        self._heard = self._told = time.monotonic()

    def complaint(self) -> str:
        """What people are to be told now; empty for nothing."""
        now = time.monotonic()
        if not self._service or now - self._told < TELL_S:
            return ""
        self._told = now
        return self._reason(now)

    def given_up(self) -> str:
        """Why waiting is over; empty where it is not."""
        now = time.monotonic()
        return self._reason(now) if self._service and now - self._heard >= GIVE_UP_S else ""

    def _reason(self, now: float) -> str:
        wanted = f" (--exec-property {self._properties})" if self._properties else ""
        return (
            f"no action came back from {self._service} for {now - self._heard:.0f} s: it is busy, or it has no worker with "
            f"the properties that actions ask for{wanted}"
        )
