"""Run the commands of a build: log their output and report their progress."""

from __future__ import annotations

import math
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled
from mlir_matrix.base.names import printable

#: A function that gets the number of completed steps and of all steps.
Steps = Callable[[int, int], None]

_STEP = re.compile(rb"^\[(\d+)/(\d+)\] ", re.MULTILINE)
_WRONG = re.compile(r"error:|CMake Error|^fatal:|No such file|No space left", re.IGNORECASE)
_POLL_S = 0.1
_END_S = 5
#: The most bytes in a pipe.
_PIPE = 1 << 16
#: Runs a command that ends, with its children, when this process ends, even if it is killed. Otherwise they would write into
#: folders that another process may use by then. After SIGTERM, Ninja removes incomplete files, and git removes its locks.
_UNTIL_WE_END = """\
import ctypes, os, signal, sys, time
def end(*_):
    os.killpg(0, signal.SIGTERM)
    time.sleep(1)
    os.killpg(0, signal.SIGKILL)
signal.signal(signal.SIGUSR1, end)
ctypes.CDLL(None).prctl(1, signal.SIGUSR1)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    child = os.fork()
    if not child:
        os.execvp(sys.argv[2], sys.argv[2:])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)
"""
#: Variables that git sets for hooks, which name another repository.
_OF_HOOKS = frozenset(
    f"GIT_{name}"
    for name in (
        "DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "CONFIG", "CONFIG_COUNT",
        "CONFIG_PARAMETERS", "COMMON_DIR", "NAMESPACE", "PREFIX", "SHALLOW_FILE", "GRAFT_FILE", "NO_REPLACE_OBJECTS",
        "REPLACE_REF_BASE", "IMPLICIT_WORK_TREE", "INTERNAL_SUPER_PREFIX", "ASKPASS", "EXEC_PATH", "TEMPLATE_DIR",
    )
)  # fmt: skip


def clean_environment() -> dict[str, str]:
    """Return the environment for git: without other repositories, and without questions."""
    found = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **found}


class Runner:
    """Runs commands one after the other; the methods raise InfrastructureError, Cancelled."""

    def __init__(self, log: Path, cancelled: threading.Event, steps: Steps) -> None:
        self._log = log
        self._cancelled = cancelled
        self._steps = steps

    def run(self, command: Sequence[str], failure: str, limit_s: float | None = None) -> None:
        """Run a command, at most for ``limit_s``; ``failure`` is the first part of the error message."""
        try:
            code, output = self.output(command, limit_s)
        except TimeoutError:
            reason = f"not done after {limit_s:g} s, the limit"
        else:
            if not code:
                return
            reason = first_error(output)
        raise InfrastructureError(f"{failure}: {reason}; see the log {self._log}")

    def output(self, command: Sequence[str], limit_s: float | None = None) -> tuple[int, str]:
        """Run a command; return its exit code and output. Raise TimeoutError if it takes longer than ``limit_s``."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "a+b") as log:
            begin = log.seek(0, os.SEEK_END)
            code = self._run(command, log, time.monotonic() + (limit_s or math.inf))
            if code == 128 + signal.SIGKILL:
                # Write what a shell would print: the kernel has killed it, probably for lack of memory.
                log.write(b"Killed\n")
            log.seek(begin)
            return code, log.read().decode("utf-8", "replace")

    def _run(self, command: Sequence[str], log: IO[bytes], deadline: float) -> int:
        if self._cancelled.is_set():
            raise Cancelled
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _UNTIL_WE_END, str(os.getpid()), *command], env=clean_environment(), cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            try:
                while True:
                    if self._cancelled.is_set():
                        raise Cancelled
                    if time.monotonic() > deadline:
                        raise TimeoutError
                    # Checked before the pipe is read for the last time, because a background child may keep the pipe open.
                    ended = process.poll() is not None
                    if selector.select(0 if ended else _POLL_S) and not self._copied(process.stdout, log):
                        selector.unregister(process.stdout)
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(_POLL_S)
                    if ended:
                        return process.returncode
            finally:
                _end(process, selector, log)

    def _copied(self, output: IO[bytes], log: IO[bytes]) -> bool:
        """Copy the content of the pipe to the log. Return whether the pipe is still open."""
        chunk = os.read(output.fileno(), _PIPE)
        log.write(chunk)
        log.flush()
        if steps := _STEP.findall(chunk):
            self._steps(*map(int, steps[-1]))
        return bool(chunk)


def _end(process: subprocess.Popen[bytes], selector: selectors.BaseSelector, log: IO[bytes]) -> None:
    """End a command and its children, including those that outlive it or ignore SIGTERM."""
    assert process.stdout is not None
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _END_S
        # A shell ends at once, but its Ninja still removes incomplete files: wait until all processes have closed the pipe.
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            chunk = os.read(process.stdout.fileno(), _PIPE)
            log.write(chunk)
            if not chunk:
                selector.unregister(process.stdout)
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0, until - time.monotonic()))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def first_error(output: str) -> str:
    """Return the first line that looks like an error, else the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    first = next((index for index, line in enumerate(lines) if _WRONG.search(line)), len(lines) - 1)
    if not lines:
        return "no output"
    # CMake prints the position in the first line and the message in the next one.
    more = f" {lines[first + 1]}" if lines[first].endswith(":") and first + 1 < len(lines) else ""
    return printable(f"{lines[first]}{more}", 300)
