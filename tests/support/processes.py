"""Processes of services: started, waited for, and ended with the test."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from mlir_matrix.actions.sandbox.isolation import die_with_parent

_START_S, _STOP_S = 180, 10
_CLEAN = {"LC_ALL": "C.UTF-8", "TZ": "GMT", "PATH": "/nonexistent"}


@dataclass
class Process:
    """One that runs, or does not."""

    command: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Called in the child.
    before: Callable[[], None] = die_with_parent
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env={**_CLEAN, **self.environment}, cwd=self.log.parent, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=self.before,  # noqa: PLW1509 - no threads of ours
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End it as a machine vanishes: nobody is told."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """End it, at once where asking does not help."""
        if self.process is not None and self.runs:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until it can be used. Raises RuntimeError with what it said."""
        end = time.monotonic() + _START_S
        while not ready():
            if not self.runs or time.monotonic() > end:
                said = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
                raise RuntimeError(f"{os.path.basename(self.command[0])} does not start:\n{said}")
            time.sleep(0.05)


def run_to_end(
    command: Sequence[str | Path],
    log: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    before: Callable[[], None] = die_with_parent,
) -> None:
    """Run something to its end."""
    made = Process(command, log, environment, before)
    made.start()
    assert made.process is not None
    if made.process.wait(_START_S) != 0:
        raise RuntimeError(f"{log.stem} fails:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
