"""Options of execution: limits, the executor and its settings."""

from __future__ import annotations

from dataclasses import dataclass


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
