"""Count what a reduction has tested, for its displays."""

from __future__ import annotations

import time

from mlir_matrix.base.text import counted


class Progress:
    """The size of the best candidate so far, and how many were tested."""

    def __init__(self) -> None:
        self.operations = 0
        self.tested = 0
        #: Those of them that an earlier process has tested.
        self.known = 0
        self._began = 0.0

    def note(self, operations: int) -> None:
        """Take the size of the best candidate so far."""
        self._began = self._began or time.monotonic()
        self.operations = operations

    def words(self) -> str:
        """Return the progress in a line; empty before it begins."""
        if not self._began:
            return ""
        seconds = time.monotonic() - self._began
        rate = f", {(self.tested - self.known) / seconds:.0f} a second" if seconds > 1 else ""
        return f"{counted(self.operations, 'operation')} left; {counted(self.tested, 'candidate')} tested{rate}"
