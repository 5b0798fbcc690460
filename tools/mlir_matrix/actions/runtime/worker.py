"""Serve requests in a warm process, which runs the actions of each request in a forked child.

It uses Bazel's JSON protocol for multiplexed persistent workers. Each work request is a line on stdin. Each action has a work
response, a line on stdout (``contract``). A request names a ``sandboxDir`` with ``action.json`` and the inputs. The parent
imports what its tools need and stays single-threaded. A crash, a leak or a hang affects only a child. Without
``--persistent_worker`` the same command runs the one action in the current folder. Bazel's requests have a layout instead
(``bazel_layout``).

A request with several actions saves a fork and a new context of MLIR, which take several times as long as a small action.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fnmatch
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from itertools import chain
from typing import Any, NoReturn

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import WorkRequest, WorkResponse
from mlir_matrix.actions.runtime import bytecode
from mlir_matrix.actions.runtime.bazel_layout import Staged, layout_of
from mlir_matrix.actions.runtime.child import REQUEST_FILE, open_plain, run_forked
from mlir_matrix.actions.runtime.running import Ends, Running
from mlir_matrix.actions.sandbox import gpu_driver, isolation, root
from mlir_matrix.actions.sandbox.cgroup import ContainerCounters

#: Seconds that an action has for printing its stack after its time limit.
_LAST_WORDS_S = 1.0
#: Seconds until an action that still computes at its time limit is checked again; long enough for a wait for the disk.
_LOOK_AGAIN_S = 1.0


class Worker:
    """The parent process. It starts a child per request, ends the child at its time limit, and answers when it has ended."""

    def __init__(
        self,
        *,
        replies: int,
        spaces: isolation.Spaces | None,
        alone: bool,
        devices: Sequence[str] = (),
        foreign: bool = False,
    ) -> None:
        self._replies = replies
        #: Whether only actions may import the environment's packages.
        self._foreign = foreign
        #: Devices that the operator grants to actions that ask for them.
        self._granted = frozenset(devices)
        self._spaces = spaces
        self._not_isolated = isolation.lost(spaces)
        #: Whether to hide the folders beside an action's folder, which belong to other actions.
        self._alone = alone
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, Running] = {}
        self._open = True
        self._buffer = b""
        self._container = ContainerCounters() if spaces is None and os.getpid() == 1 else None
        self._ends = Ends(self._container)
        #: The failure of the machine in the last request, if any.
        self.trouble = ""

    def serve(self, requests: int) -> None:
        """Answer requests until their end of file; then end all actions that still run."""
        os.set_blocking(requests, False)
        self._selector.register(requests, selectors.EVENT_READ, None)
        while self._open or self._running:
            self._turn(requests)

    def perform(self, request: WorkRequest) -> None:
        """Run a single request that did not come from stdin."""
        self._start(request)
        while self._running:
            self._turn(-1)

    def _turn(self, requests: int) -> None:
        for key, _ in self._selector.select(self._patience()):
            if key.data is None:
                self._receive(requests)
            elif key.fd == key.data.pidfd:
                self._finish(key.data)
            else:
                self._take_report(key.data)
        self._end_overdue()

    def _receive(self, requests: int) -> None:
        chunk = os.read(requests, 1 << 16)
        if not chunk:
            self._open = False
            self._selector.unregister(requests)
            for task in self._running.values():
                task.kill()
            return
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in filter(bytes.strip, lines):
            try:
                request = WorkRequest.from_line(line)
            except (ValueError, TypeError) as error:
                sys.exit(f"internal error: a request is not a JSON object: {error}")
            if request.cancel or request.proceed:
                self._continue(request)
            else:
                self._start(request)

    def _patience(self) -> float | None:
        busy = [task.deadline for task in self._running.values() if not task.waits]
        return max(0.0, min(busy) - time.monotonic()) if busy else None

    def _continue(self, request: WorkRequest) -> None:
        """Have a process go on with its next action, or end it. Its end is answered, as always."""
        for task in self._running.values():
            if task.request_id == request.request_id and task.line is not None and task.waits:
                if request.cancel:
                    task.kill()
                    return
                task.waits, task.actions = False, task.actions - 1
                task.started = task.looked = time.monotonic()
                task.deadline, task.cpu_s = task.started + task.timeout_s, 0.0
                try:
                    task.stage = str(_read_request(task.folder, REQUEST_FILE)["stage"])
                    task.line.send(b"x")
                except (OSError, ValueError, LookupError, TypeError):
                    # Its end is noticed.
                    task.kill()

    def _start(self, request: WorkRequest) -> None:
        root = os.path.abspath(request.folder)
        staged = None
        try:
            staged = self._staged(root, request.arguments)
            task = self._fork(request, root, staged)
        except (OSError, ValueError, LookupError, TypeError) as error:
            if isinstance(error, OSError):
                # The machine lacks processes, descriptors or memory. The next request may succeed.
                trouble = f"the machine failed: cannot start the action: {error.strerror}"
            else:
                trouble = f"internal error: the request is damaged: {type(error).__name__}: {error}"
            self._answer(request.request_id, {}, trouble if staged is None else staged.close({}, trouble))
            return
        if task is None:
            self._answer(request.request_id, {})
            return
        self._running[task.pid] = task
        self._selector.register(task.pidfd, selectors.EVENT_READ, task)
        if task.line is not None:
            self._selector.register(task.line, selectors.EVENT_READ, task)

    def _take_report(self, task: Running) -> None:
        """Answer an action whose child has reported its success and waits."""
        if task.line is None:
            return
        try:
            report = task.line.recv(1 << 12)
        except ConnectionResetError:
            report = b""
        if not report or task.timed_out:
            # The child ends.
            self._close_line(task)
            return
        try:
            user, system, rss = _times(report, task)
        except (ValueError, TypeError):
            # The tool, or a package that it imports, has written to the line.
            self._close_line(task)
            task.kill()
            return
        used = self._used(task, user, system, rss)
        task.before = user, system
        task.waits = True
        self._answer(task.request_id, used, more=True)

    def _staged(self, root: str, arguments: Sequence[str]) -> Staged | None:
        layout = layout_of(arguments)
        if layout is None:
            return None
        if self._alone and not self._foreign:
            # Bazel starts workers without naming their tools, so they are imported now.
            params = layout["request"]["params"]
            tools = [layout["request"]["tool"], *([contract.BACKEND] if "bindings" in params else [])]
            _preload(tuple(tools), tuple(layout["preload"]))
        return Staged(layout, root)

    def _fork(self, wanted: WorkRequest, root: str, staged: Staged | None) -> Running | None:
        """Start the actions of a request. Return None if it inherits a failure and needs no process."""
        actions = 1
        if staged is None:
            options = _request_parser().parse_args(wanted.arguments)
            folder, file, limits = root, options.request, (options.timeout_s, options.memory_mb)
            actions = options.actions
        else:
            if staged.passed_on():
                return None
            staged.open()
            folder, file, limits = staged.folder, REQUEST_FILE, (staged.timeout_s, staged.memory_mb)
        request = _read_request(folder, file)
        stage, devices = str(request["stage"]), request["params"].get("devices", ())
        # Reserve a descriptor for pidfd_open, which must not fail after the fork.
        reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        started = time.monotonic()
        space, ours, its = None, None, None
        try:
            if actions > 1:
                ours, its = socket.socketpair()
            space = self._space(folder, devices)
            pid = os.fork()
            if pid == 0:
                line = -1 if its is None else its.fileno()
                run_forked(request, folder, memory_mb=limits[1], space=space, actions=actions, line=line)
        except OSError:
            if ours is not None:
                ours.close()
            if space is not None:
                space.leave()
                space.kill()
                space.close()
            raise
        finally:
            os.close(reserve)
            if its is not None:
                its.close()
        if space is not None:
            space.leave()
        return Running(
            request_id=wanted.request_id,
            folder=folder,
            stage=stage,
            pid=pid,
            pidfd=os.pidfd_open(pid),
            space=space,
            started=started,
            looked=started,
            deadline=started + limits[0],
            timeout_s=limits[0],
            memory_mb=limits[1],
            staged=staged,
            actions=actions,
            line=ours,
        )

    def _space(self, folder: str, devices: Sequence[str]) -> isolation.Space | None:
        """Enter the namespaces of a process. Raise OSError for a device that is not granted."""
        granted = {glob: fnmatch.filter(self._granted, glob) for glob in devices}
        refused = [glob for glob, matching in granted.items() if not matching]
        if refused:
            raise PermissionError(errno.EACCES, f"{' and '.join(refused)}: not granted by matrix run --device")
        if self._spaces is None:
            return None
        return self._spaces.open(folder, alone=self._alone, devices=sorted(set(chain(*granted.values()))))

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for task in self._running.values():
            if task.waits or now < task.deadline:
                continue
            if task.timed_out:
                task.kill()
                task.deadline = now + 3600
            elif task.goes_on(now):
                task.deadline = now + _LOOK_AGAIN_S
            else:
                task.timed_out = True
                task.ask_where()
                task.deadline = now + _LAST_WORDS_S

    def _finish(self, task: Running) -> None:
        self._selector.unregister(task.pidfd)
        os.close(task.pidfd)
        self._close_line(task)
        # Kill the group first: once its leader is reaped, another process may get its number.
        task.kill()
        _, status, usage = os.wait4(task.pid, 0)
        del self._running[task.pid]
        if task.space is not None:
            task.space.close()
        elif self._container is not None and not self._running:
            self._container.end_all()
        elif self._spaces is None:
            self._bury_orphans()
        trouble = self._ends.settle(task, status)
        used = self._used(task, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)
        if task.staged is not None:
            trouble = task.staged.close(used, trouble)
        self._answer(task.request_id, used, trouble)

    def _close_line(self, task: Running) -> None:
        if task.line is not None:
            self._selector.unregister(task.line)
            task.line.close()
            task.line = None

    def _used(self, task: Running, user: float, system: float, rss: int) -> dict[str, float]:
        """Return the time of an action, from the times of its process, and the memory of all actions of the process so far."""
        return {
            "wall_s": round(time.monotonic() - task.started, 6),
            "user_s": round(user - task.before[0], 6),
            "sys_s": round(system - task.before[1], 6),
            "max_rss_kb": rss,
        }

    def _answer(self, request_id: int, usage: dict[str, float], trouble: str = "", *, more: bool = False) -> None:
        self.trouble = trouble
        response = WorkResponse(
            request_id=request_id, trouble=trouble, usage=usage, more=more, not_isolated=self._not_isolated
        )
        os.write(self._replies, response.to_line())

    def _bury_orphans(self) -> None:
        """End the processes that a finished action left. They are now children of this process, their subreaper.

        Repeat, because killed processes leave children, too. Stop after 2 s: a fork bomb may start processes faster.
        """
        until = time.monotonic() + 2
        while (orphans := {*isolation.children()} - self._running.keys()) and time.monotonic() < until:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def _read_request(folder: str, file: str) -> dict[str, Any]:
    """Read a request without ever blocking: a child that waits may have replaced the file. Raise OSError or ValueError."""
    with open_plain(os.path.realpath(os.path.join(folder, file))) as text:
        request: dict[str, Any] = json.load(text)
    return request


def _times(report: bytes, task: Running) -> tuple[float, float, int]:
    """Return the times and the memory in a child's report. Raise ValueError or TypeError if it is invalid."""
    user, system, rss = json.loads(report)
    if task.waits or task.actions == 1 or not all(0 <= value < 1e12 for value in (user, system, rss)):
        raise ValueError("a child reports impossible times or memory")
    return user, system, rss


class _RequestParser(argparse.ArgumentParser):
    """A parser that raises ValueError, where its base class would end the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


@cache
def _request_parser() -> argparse.ArgumentParser:
    parser = _RequestParser(prog="request", add_help=False)
    parser.add_argument("request", nargs="?", default=REQUEST_FILE)
    parser.add_argument("--timeout-s", type=float, default=60.0)
    parser.add_argument("--memory-mb", type=int, default=4096)
    parser.add_argument("--actions", type=int, default=1)
    return parser


def _warm(name: str) -> None:
    """Import ``MODULE`` of the environment's packages, or call ``MODULE:FUNCTION`` if that is defined there."""
    path, _, attribute = name.partition(":")
    if PathFinder.find_spec(path.partition(".")[0], contract.sites) is None:
        # A catalog chose the name, and importing some modules of the standard library has effects.
        return
    module = importlib.import_module(path)
    if attribute and os.path.dirname(str(module.__spec__ and module.__spec__.origin)).startswith(tuple(contract.sites)):
        getattr(module, attribute)()


@cache
def _preload(tools: Sequence[str], modules: Sequence[str]) -> None:
    # Frameworks create millions of objects and no garbage at import.
    gc.disable()
    try:
        for tool in tools:
            path = tool if tool == contract.BACKEND else f"tools.{tool}"
            module = importlib.import_module(f"mlir_matrix.actions.{path}")
            preload = getattr(module, "preload", None)
            if preload is not None:
                preload()
        for name in modules:
            # A failing import fails again in the child, as a failure of the action.
            with contextlib.suppress(Exception, SystemExit):
                _warm(name)
    finally:
        gc.enable()
    # Children share these pages; their garbage collector would copy them.
    gc.collect()
    gc.freeze()


def _compile() -> None:
    """Compile all modules of the packages without running them, because actions cannot write bytecode."""
    for site in contract.sites if sys.pycache_prefix else ():
        bytecode.compile_all(site)


def main(arguments: Sequence[str], declared: Sequence[str] | None = None) -> int:
    """Run ``worker.py [--tool T…] [--module M…] --persistent_worker``, or ``worker.py action.json`` for one action here.

    ``declared``: the files of this machine that actions see; None: all that this process sees. ``--bound``: only print them.
    ``--foreign``: an untrusted catalog chose packages. This process is not isolated, so it imports none of them.
    """
    parser = argparse.ArgumentParser(prog="worker")
    parser.add_argument("--tool", action="append", default=[])
    parser.add_argument("--module", action="append", default=[])
    parser.add_argument("--device", action="append", default=[])
    parser.add_argument("--foreign", action="store_true")
    parser.add_argument("--persistent_worker", action="store_true")
    parser.add_argument("--bound", action="store_true")
    options, rest = parser.parse_known_args(arguments)
    if options.bound:
        return _tell_bound(declared or ())
    if options.persistent_worker:
        isolation.die_with_parent()
    if declared is not None and options.device:
        declared = [*declared, *gpu_driver.files(options.device)]
    spaces = isolation.enter(declared)
    isolation.adopt_orphans()
    if options.persistent_worker:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        replies = os.dup(1)
        # Output that a tool prints at import must not mix with the responses.
        os.dup2(2, 1)
        if options.foreign:
            _compile()
        else:
            _preload(tuple(options.tool), tuple(options.module))
        worker = Worker(replies=replies, spaces=spaces, alone=True, devices=options.device, foreign=options.foreign)
        worker.serve(0)
        # Skip the frameworks' exit handlers, which take time.
        os._exit(0)
    return _once(rest, spaces)


def _tell_bound(declared: Sequence[str]) -> int:
    found = root.bound(declared)
    print(json.dumps({"bound": found, "lost": isolation.lost(isolation.enter(declared))}), flush=True)
    return 0


def _once(arguments: Sequence[str], spaces: isolation.Spaces | None) -> int:
    """Run one action as a plain command, supervised in the same way."""
    worker = Worker(replies=os.open(os.devnull, os.O_WRONLY), spaces=spaces, alone=False)
    worker.perform(WorkRequest(arguments=arguments))
    if worker.trouble:
        print(worker.trouble, file=sys.stderr)
    return 1 if worker.trouble else 0
