"""Jobs that lost their worker: retried one at a time, after a pause that grows with every loss."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container

from mlir_matrix.execute.job import Job

#: A lost job is tried once more, alone, with a new worker and folder.
ATTEMPTS = 2
#: Seconds before an environment whose worker was lost gets the next one. After the last, or where losses in a row are
#: further apart than ``_IN_A_ROW_S``, an environment whose worker does not begin its job is given up.
_BACK_OFF_S = (0.5, 2.0, 8.0)
_IN_A_ROW_S = 60.0


class Retries:
    """Jobs that run alone, so that a second loss has one explanation, and environments that wait for a new worker."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        #: The key of the last job that was begun.
        self._begun = ""
        #: By environment: when workers were lost since one last answered.
        self._losses: dict[str, list[float]] = {}

    def add(self, job: Job) -> None:
        """Retry a job, alone."""
        self._waiting.append(job)

    def next(self) -> Job | None:
        """Return the next job whose environment may have a worker, or None."""
        return next((job for job in self._waiting if not self.is_held_back(job.environment.digest)), None)

    def begin(self, job: Job) -> None:
        """Take a job out of the queue."""
        self._waiting.remove(job)
        self._begun = job.prepared.key

    def is_running(self, jobs: Container[str]) -> bool:
        """Return whether a retried job is among the keys of those that are not done."""
        return self._begun in jobs

    def note_loss(self, environment: str) -> bool:
        """Note that a worker was lost; return whether its environment is hopeless."""
        lost = self._losses.setdefault(environment, [])
        lost.append(time.monotonic())
        return len(lost) > len(_BACK_OFF_S) or (len(lost) >= ATTEMPTS and lost[-1] - lost[-2] > _IN_A_ROW_S)

    def forget_losses(self, environment: str) -> None:
        """Note that a worker has answered, or that there will be none."""
        self._losses.pop(environment, None)

    def is_held_back(self, environment: str) -> bool:
        """Return whether an environment has to wait for its next worker."""
        lost = self._losses.get(environment)
        return lost is not None and time.monotonic() < lost[-1] + _BACK_OFF_S[min(len(lost), len(_BACK_OFF_S)) - 1]
