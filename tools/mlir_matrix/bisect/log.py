"""The folder of a bisection: a log with each observation, written before the next one is made, and the reports."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from mlir_matrix.bisect.observations import Observation
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import unwritable

_ODD = re.compile(r"[^\w.+~=-]+", re.ASCII)


class Log:
    """Appends events to ``log.ndjson`` in a folder of its own."""

    def __init__(self, folder: Path, axis: Axis) -> None:
        self.folder, self._axis = folder, axis

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
            self.folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self.folder / "log.ndjson", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)
        except OSError as error:
            raise unwritable(f"the log {self.folder / 'log.ndjson'} cannot be written", error) from None


def new_folder(state: Path, tests: list[str]) -> Path:
    """Return a folder that no other bisection has. Raise InfrastructureError."""
    name = f"{time.strftime('%Y-%m-%dT%H-%M-%SZ', time.gmtime())}@{_ODD.sub('-', tests[0])[:100]}"
    for number in range(1, 1000):
        folder = state / "bisect" / (name + (f".{number}" if number > 1 else ""))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise unwritable(f"the folder {folder} cannot be made", error) from None
        return folder
    raise InfrastructureError(f"{state / 'bisect'} has too many folders of this second")
