"""Options of execution: limits, the executor and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time and memory of one action, and how many run at a time."""

    jobs: int
    timeout_s: float = 120.0
    memory_mb: int = 4096


#: The executors.
EXECUTORS = ("local", "docker", "bazel")


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Which executor runs the actions, and its settings."""

    executor: str = "local"
    #: ``bazel``: the addresses of a remote execution service and of a remote cache.
    remote: str = ""
    remote_cache: str = ""
    #: Execution properties of actions: ``KEY`` or ``ENVIRONMENT:KEY``, and the value.
    properties: tuple[tuple[str, str], ...] = ()
    #: ``local``: the devices that kernels may use if their targets declare them.
    devices: tuple[str, ...] = ()

    @property
    def sealed(self) -> bool:
        """Return whether environments must not contain programs of this machine."""
        return self.executor != "local"


LOCAL = ExecutorOptions()


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """What selects tests after suites and globs."""

    #: A machine of the catalogs, or a file; empty for none.
    machine: str = ""
    #: Files of recorded tests; None: what is recorded on this machine.
    history: Path | None = None
    #: The time of the plan, in UTC; empty for now.
    date: str = ""
    #: Number, from 1, and count.
    shard: tuple[int, int] | None = None
    durations: Path | None = None
    #: A revision, or files, whose changes can affect the tests.
    changed_since: str = ""
    changed: tuple[Path, ...] = ()

    @property
    def repeats(self) -> bool:
        """Return whether it selects the same tests again while no file changes."""
        return not (self.changed_since or self.changed) and (not self.machine or bool(self.history and self.date))


EVERYTHING = SelectionOptions()
