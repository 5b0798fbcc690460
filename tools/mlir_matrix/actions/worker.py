"""A warm process that runs actions, each in a forked child.

It speaks Bazel's JSON persistent-worker protocol, multiplexed: a line with a work request comes in, a line with a work
response goes out, in any order, matched by ``requestId``. Requests name a ``sandboxDir`` that holds ``action.json`` and
the inputs. The parent imports what its tools need and stays single-threaded; a crash, a leak or a hang is a child's.
Without ``--persistent_worker`` the same command runs the one action in the current folder.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir_matrix.actions import isolation
from mlir_matrix.actions.child import (
    LOG_FILE,
    OUTCOME_FILE,
    REQUEST_FILE,
    crash,
    failure,
    perform,
    read_log,
    write_outcome,
)

#: SIGKILL is nobody's verdict: the action did not bring it on itself.
_MEMORY_HINT = "killed: the machine ran out of memory"


@dataclass
class _Running:
    """A request whose child is alive."""

    request_id: int
    folder: str
    stage: str
    pid: int
    pidfd: int
    started: float
    deadline: float
    timed_out: bool = False


class Worker:
    """The parent: starts a child per request, ends those that take too long, answers when they are done."""

    def __init__(self, *, replies: int) -> None:
        self._replies = replies
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, _Running] = {}
        self._open = True
        self._buffer = b""

    def serve(self, requests: int) -> None:
        """Answer until the requests' end of file; what still runs then is nobody's any more and is ended."""
        os.set_blocking(requests, False)
        self._selector.register(requests, selectors.EVENT_READ, None)
        while self._open or self._running:
            self._turn(requests)

    def perform(self, message: dict[str, Any]) -> None:
        """Answer a single request that did not come over the wire."""
        self._start(message)
        while self._running:
            self._turn(-1)

    def _turn(self, requests: int) -> None:
        for key, _ in self._selector.select(self._patience()):
            if key.data is not None:
                self._finish(key.data)
            else:
                self._receive(requests)
        self._end_overdue()

    def _receive(self, requests: int) -> None:
        chunk = os.read(requests, 1 << 16)
        if not chunk:
            self._open = False
            self._selector.unregister(requests)
            for task in self._running.values():
                _kill_group(task.pid)
            return
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                self._start(json.loads(line))

    def _patience(self) -> float | None:
        if not self._running:
            return None
        return max(0.0, min(task.deadline for task in self._running.values()) - time.monotonic())

    def _start(self, message: dict[str, Any]) -> None:
        options = _request_parser().parse_args(message.get("arguments", []))
        folder = message.get("sandboxDir") or "."
        with open(os.path.join(folder, options.request), encoding="utf-8") as file:
            request = json.load(file)
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child(request, folder, memory_mb=options.memory_mb)
        task = _Running(
            request_id=message.get("requestId", 0),
            folder=folder,
            stage=request["stage"],
            pid=pid,
            pidfd=os.pidfd_open(pid),
            started=started,
            deadline=started + options.timeout_s,
        )
        self._running[pid] = task
        self._selector.register(task.pidfd, selectors.EVENT_READ, task)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for task in self._running.values():
            if not task.timed_out and now >= task.deadline:
                task.timed_out = True
                _kill_group(task.pid)
                task.deadline = now + 3600

    def _finish(self, task: _Running) -> None:
        self._selector.unregister(task.pidfd)
        os.close(task.pidfd)
        # The group first: once the leader is reaped its number may belong to somebody else.
        _kill_group(task.pid)
        _, status, usage = os.wait4(task.pid, 0)
        del self._running[task.pid]
        self._bury_orphans()
        wall = time.monotonic() - task.started
        _settle(task, status, wall)
        reply = {
            "exitCode": 0,
            "output": "",
            "requestId": task.request_id,
            # Bazel ignores keys that it does not know.
            "usage": {
                "wall_s": round(wall, 6),
                "user_s": round(usage.ru_utime, 6),
                "sys_s": round(usage.ru_stime, 6),
                "max_rss_kb": usage.ru_maxrss,
            },
        }
        os.write(self._replies, json.dumps(reply).encode() + b"\n")

    def _bury_orphans(self) -> None:
        """End what a finished action left behind: as their nearest living ancestor, this process inherited them."""
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                children = [int(word) for word in file.read().split()]
        except OSError:
            return
        for pid in children:
            if pid not in self._running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Not yet a group leader, or already gone; a child that is not a leader yet has run nobody's code.
        return


def _settle(task: _Running, status: int, wall: float) -> None:
    """Write the outcome for a child that could not write its own."""
    path = os.path.join(task.folder, OUTCOME_FILE)
    if task.timed_out:
        limit = f"{wall:.0f} s"
        outcome = failure(task.stage, "timed-out", f"no answer within {limit}", read_log(task.folder))
    elif os.path.exists(path):
        return
    elif os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        if name == "SIGKILL":
            outcome = failure(task.stage, "infra-error", _MEMORY_HINT, read_log(task.folder))
        else:
            outcome = crash(task.stage, name, read_log(task.folder))
    else:
        code = os.waitstatus_to_exitcode(status)
        reason = f"the process ended by itself with exit code {code} before it was done"
        outcome = failure(task.stage, f"{task.stage}-failed", reason, read_log(task.folder))
    write_outcome(task.folder, outcome)


def _child(request: dict[str, Any], folder: str, *, memory_mb: int) -> None:
    """The forked child: never returns."""
    code = 70
    try:
        os.setsid()
        isolation.die_with_parent()
        os.chdir(folder)
        _redirect()
        isolation.limit_resources(memory_mb=memory_mb)
        os.environ["HOME"] = os.environ["TMPDIR"] = os.getcwd()
        outcome = perform(request)
        sys.stdout.flush()
        sys.stderr.flush()
        write_outcome(".", outcome)
        code = 0
    finally:
        # No interpreter shutdown: it would run the frameworks' exit handlers in a process that they do not know.
        os._exit(code)


def _redirect() -> None:
    """Everything that the action prints goes to its log; it inherits no descriptor of the worker's."""
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 1024)


def _request_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="request")
    parser.add_argument("request", nargs="?", default=REQUEST_FILE)
    parser.add_argument("--timeout-s", type=float, default=60.0)
    parser.add_argument("--memory-mb", type=int, default=4096)
    return parser


def _preload(tools: Sequence[str]) -> None:
    for tool in tools:
        module = importlib.import_module(f"mlir_matrix.actions.{tool}")
        preload = getattr(module, "preload", None)
        if preload is not None:
            preload()
    # Children share these pages; collecting them would copy them.
    gc.collect()
    gc.freeze()


def main(arguments: Sequence[str]) -> int:
    """``worker.py --tool T [--tool T…] --persistent_worker``, or ``worker.py action.json`` for one action here."""
    parser = argparse.ArgumentParser(prog="worker")
    parser.add_argument("--tool", action="append", default=[])
    parser.add_argument("--persistent_worker", action="store_true")
    options, rest = parser.parse_known_args(arguments)
    isolation.drop_network()
    isolation.adopt_orphans()
    if options.persistent_worker:
        isolation.die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        replies = os.dup(1)
        # A tool that prints while it is imported must not end up in the protocol.
        os.dup2(2, 1)
        _preload(options.tool)
        Worker(replies=replies).serve(0)
        return 0
    return _once(rest)


def _once(arguments: Sequence[str]) -> int:
    """One action as a plain command, supervised in the same way."""
    Worker(replies=os.open(os.devnull, os.O_WRONLY)).perform({"arguments": list(arguments), "sandboxDir": os.getcwd()})
    return 0
