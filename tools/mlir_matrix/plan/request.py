"""The request of a command line: which tests, by which executor, within which limits."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.digest import digest_file
from mlir_matrix.environments.source.permissions import NONE, Permissions

#: The limit of an action's memory, in MiB, where none is given.
DEFAULT_MEMORY_MB = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time and memory of one action, and how many run at a time."""

    jobs: int
    timeout_s: float = 120.0
    memory_mb: int = DEFAULT_MEMORY_MB


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
    """Options that select tests, in addition to suites and globs."""

    #: A machine of the catalogs, or a file; empty for none.
    machine: str = ""
    #: Files of recorded tests; None: what is recorded on this machine.
    history: Path | None = None
    #: The time of the plan, in UTC; empty for now.
    date: str = ""
    #: Number, from 1, and count.
    shard: tuple[int, int] | None = None
    durations: Path | None = None
    #: A revision, or files: tests that a change since it, or of these, can affect.
    changed_since: str = ""
    changed: tuple[Path, ...] = ()

    @property
    def repeats(self) -> bool:
        """Return whether it selects the same tests again while no file changes."""
        return not (self.changed_since or self.changed) and (not self.machine or bool(self.history and self.date))


EVERYTHING = SelectionOptions()

#: Whose files a run keeps, if it does not name the tests.
FAILED, ALL = "failed", "all"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a command line that decide the results."""

    tests: Sequence[str]
    catalogs: tuple[Path, ...]
    cache_dir: Path | None
    #: Environments used instead of others, by the names of the others.
    swaps: Mapping[str, str]
    pins: Sequence[str]
    executor: ExecutorOptions
    limits: Limits
    keep_going: bool
    #: How often to execute tests again, and from which stage.
    repeat: int | None = None
    rerun_from: str | None = None
    selection: SelectionOptions = EVERYTHING
    permissions: Permissions = NONE
    #: A named size of workloads; empty for that of ``dims``.
    size: str = ""
    #: Whether to count what tests cost, and whether one that costs more than its golden fails.
    cost: bool = False
    strict: bool = False
    #: Whose files to keep: ``FAILED``, ``ALL``, or an identifier or glob of tests.
    keep: str = FAILED

    @property
    def times(self) -> int:
        """How often tests run anew; 0: their results may come from the cache."""
        return self.repeat or int(self.rerun_from is not None)

    def words(self) -> list[object]:
        """Return the request as JSON, without options that only change the speed."""
        limits, devices = (self.limits.timeout_s, self.limits.memory_mb), self.executor.devices
        chosen = self.selection
        files = map(_digest, (chosen.machine, chosen.history, chosen.durations))
        selection = [chosen.machine, chosen.date, chosen.shard, *files]
        return [
            self.tests, list(map(str, self.catalogs)), self.pins, self.swaps, self.size, self.cost, self.strict,
            limits, devices, self.keep_going, selection,
        ]  # fmt: skip


def _digest(file: Path | str | None) -> str:
    """Return the digest of a file's content; empty if it cannot be read, which the run reports."""
    with contextlib.suppress(OSError):
        return digest_file(file) if file else ""
    return ""
