"""The log of a bisection: each observation is written before the next one is made."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mlir_matrix.bisect.observations import Observation
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.files import unwritable


class Log:
    """Appends events to a file."""

    def __init__(self, path: Path, axis: Axis) -> None:
        self._path, self._axis = path, axis

    def begin(self, command: str, tests: list[str]) -> None:
        """Write what is bisected. Raise InfrastructureError."""
        self._write(
            event="begin",
            schema="mlir-matrix/bisect-log/v1",
            command=command,
            component=self._axis.component,
            releases=self._axis.releases,
            tests=tests,
        )

    def observed(self, seen: Observation) -> None:
        """Write an observation. Raise InfrastructureError."""
        self._write(
            event="observed",
            test=seen.test,
            release=self._axis.releases[seen.point],
            behaviour=None if seen.signature is None else str(seen.signature),
            outcome=seen.result.outcome,
            reason=seen.result.reason,
            duration_s=round(seen.result.duration_s, 4),
            cached=seen.result.cached,
        )

    def _write(self, **event: Any) -> None:
        line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **event}) + "\n"
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)
        except OSError as error:
            raise unwritable(f"the log {self._path} cannot be written", error) from None
