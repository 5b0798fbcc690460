"""Supervise the process of a request: measure it, end it, and write its outcome if the process could not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import iglob

from mlir_matrix.actions.contract import MachineFailed, signal_name
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.bazel_layout import Staged
from mlir_matrix.actions.runtime.child import (
    EXIT_MACHINE,
    LATE,
    MACHINE_ERRORS,
    OUTCOME_FILE,
    because,
    crash,
    failed_outcome,
    failure,
    read_log,
    wants_room,
    without_folders,
    write_outcome,
)
from mlir_matrix.actions.runtime.collect import read_failure
from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.actions.sandbox.cgroup import ContainerCounters

#: The running passes that LLVM's programs print when they abort, the innermost last.
_PASS = re.compile(r"^\d+\.\s+Running (pass ['\"].{1,100}?['\"] on \w+ ['\"].{1,80}?['\"])", re.MULTILINE)
#: How many times its limit an action may take in wall time while other processes use the CPU.
BUSY = 4
#: More threads than an action needs for computing. To inspect a thousand would take too much CPU time.
_MOST_THREADS = 128
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Running:
    """A request whose child is alive."""

    request_id: int
    folder: str
    stage: str
    pid: int
    pidfd: int
    space: isolation.Space | None
    started: float
    deadline: float
    timeout_s: float
    staged: Staged | None
    memory_mb: int
    #: When its limit was last checked; before the first check, when it started.
    looked: float
    #: How many actions are left, the current one included.
    actions: int = 1
    #: Where the child reports the end of an action, and waits until it may go on; None for a child that runs one action.
    line: socket.socket | None = None
    #: Whether the child waits for the next action.
    waits: bool = False
    #: User and system time, in seconds, of the actions before this one.
    before: tuple[float, float] = (0.0, 0.0)
    timed_out: bool = False
    #: At the last check: its CPU time in seconds, and how long each of its threads had waited for a CPU.
    cpu_s: float = 0.0
    queued_s: Mapping[str, float] = field(default_factory=dict)

    def goes_on(self, now: float) -> bool:
        """Return whether it may continue after its limit in wall time: it computes, and its CPU time is below the limit.

        It computes if it used or waited for a CPU during at least a ``BUSY``-th of the time since the last check.
        """
        since, cpu_s, queued_s = now - self.looked, self.cpu_s, self.queued_s
        self.looked = now
        used_s, self.queued_s = _cpu_seconds(self.pidfd)
        self.cpu_s = used_s - sum(self.before)
        if (
            self.cpu_s >= self.timeout_s
            or now - self.started >= BUSY * self.timeout_s
            or len(self.queued_s) > _MOST_THREADS
        ):
            return False
        waited_s = sum(seconds - queued_s.get(thread, 0) for thread, seconds in self.queued_s.items())
        return self.cpu_s - cpu_s + waited_s >= since / BUSY

    def ask_where(self) -> None:
        """Make it print its stack to its log, or to the diagnostics of its outcome."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, LATE)

    def kill(self) -> None:
        if self.space is not None:
            self.space.kill()
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # The child is no group leader yet, so it has run no tool; or it has ended.
            return


def _cpu_seconds(pidfd: int) -> tuple[float, dict[str, float]]:
    """Return the CPU time of a process and its descendants, and how long each of their threads has waited for a CPU.

    CPU time of ended descendants counts if their parents have waited for them. Return 0 if /proc does not show the process.
    """
    ticks, queued_s, found = 0, dict[str, float](), list[int]()
    with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        # Its number in the namespace of /proc, which may differ from ours.
        found += [int(line.split()[1]) for line in file if line.startswith("Pid:")]
    for pid in found:
        # The process or a thread may end meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:
            ticks += sum(map(int, stat.read().rpartition(b")")[2].split()[11:15]))
        for thread in iglob(f"/proc/{pid}/task/*"):
            queued_s[thread] = 0.0
            with contextlib.suppress(OSError), open(f"{thread}/schedstat", encoding="ascii") as file:
                queued_s[thread] = int(file.read().split()[1]) / 1e9
            if len(queued_s) > _MOST_THREADS:
                return ticks / _TICKS, queued_s
        found += isolation.children(pid)
    return ticks / _TICKS, queued_s


class Ends:
    """Writes the outcomes of children that wrote none."""

    def __init__(self, container: ContainerCounters | None) -> None:
        self._memory_kills = isolation.memory_kills()
        self._container = container

    def settle(self, task: Running, status: int) -> str:
        """Write the outcome of a child that wrote none. Return the machine's failure, or an empty string."""
        refused = self._container.refused(task.memory_mb) if self._container is not None else ""
        try:
            if task.timed_out or not os.path.lexists(os.path.join(task.folder, OUTCOME_FILE)):
                outcome = self._outcome(task, status)
            elif not refused or (own := read_failure(task.folder)) is None:
                return ""
            else:
                # The child does not know which limit it exceeded.
                outcome = own
            write_outcome(task.folder, because(outcome, refused) if refused else outcome)
        except MachineFailed as error:
            return str(error)
        except OSError as error:
            # If the action removed its own folder, the scheduler later finds a damaged folder.
            return f"the machine failed: {error.strerror}" if error.errno in MACHINE_ERRORS else ""
        return ""

    def _outcome(self, task: Running, status: int) -> dict[str, str]:
        """Return the outcome for a child that wrote none. Raise MachineFailed."""
        log = read_log(task.folder)
        if task.timed_out:
            of_what = " of CPU time" if task.cpu_s >= task.timeout_s else ""
            reason = f"no answer within {task.timeout_s:g} s{of_what} (--timeout)"
            aborted = read_failure(task.folder)
            said = (aborted["diagnostics"] if aborted is not None else "") + without_folders(log)
            if running := _PASS.findall(said):
                reason += f", in {running[-1]}"
            return failure(task.stage, Outcome.TIMED_OUT, reason, said)
        if wants_room(task.folder, log):
            raise MachineFailed("the machine failed: the disk is full, or nearly")
        if os.WIFSIGNALED(status):
            return self._killed(task.stage, os.WTERMSIG(status), log)
        if os.WEXITSTATUS(status) == EXIT_MACHINE:
            raise MachineFailed("the machine failed: the action's outcome could not be written")
        # Cause unknown (the program, or a lack of resources): not cached.
        reason = f"the process ended by itself with exit code {os.WEXITSTATUS(status)} before the action finished"
        return failure(task.stage, failed_outcome(task.stage), reason, log, cache="no")

    def _killed(self, stage: str, number: int, log: str) -> dict[str, str]:
        kills = isolation.memory_kills()
        # A container counts its own kills.
        if number == signal.SIGKILL and kills != self._memory_kills and self._container is None:
            self._memory_kills = kills
            return failure(stage, Outcome.INFRA_ERROR, "killed: the machine ran out of memory", log)
        return crash(stage, signal_name(number), log)
