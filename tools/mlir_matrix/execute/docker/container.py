"""A warm container with a worker in it: one environment, one folder, one action at a time."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from mlir_matrix.errors import InfrastructureError
from mlir_matrix.execute.docker.options import FOLDER
from mlir_matrix.execute.docker.reaper import remove
from mlir_matrix.execute.worker_process import WorkerLink, last_line
from mlir_matrix.images.daemon import Daemon

#: Bytes of what a worker last said that are worth keeping.
_LAST_WORDS = 4096
#: Number of the output, three bytes of nothing, length of what follows.
_HEADER = struct.Struct(">BxxxL")
_OUTPUT, _ERRORS = 1, 2
#: Seconds that an action takes where none has been seen yet.
_TYPICAL_S = 0.02


class Demultiplexer:
    """Splits what a container writes: a daemon sends both its outputs in one stream, in frames."""

    def __init__(self) -> None:
        self._buffer = b""
        self._which = 0
        #: Bytes that are still to come of the present frame.
        self._left = 0

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """What these bytes bring of the standard output, and of the error output."""
        found = {_OUTPUT: b"", _ERRORS: b""}
        self._buffer += chunk
        while self._buffer:
            if self._left == 0:
                if len(self._buffer) < _HEADER.size:
                    break
                self._which, self._left = _HEADER.unpack_from(self._buffer)
                self._buffer = self._buffer[_HEADER.size :]
            part = self._buffer[: self._left]
            self._buffer = self._buffer[len(part) :]
            self._left -= len(part)
            found[self._which] = found.get(self._which, b"") + part
        return found[_OUTPUT], found[_ERRORS]


@dataclass
class Pace:
    """Predicts whether one more container of an environment pays: the time to start it against what waits."""

    #: From being started to the first answer.
    start_s: float = 0.0
    _actions: int = 0
    _seconds: float = 0.0

    def note(self, seconds: float, *, first: bool) -> None:
        """An action has been answered; ``first``: its container was started for it."""
        if first:
            self.start_s = seconds
        else:
            self._actions += 1
            self._seconds += seconds

    def pays(self, waiting: int, containers: int) -> bool:
        """Whether those that wait would be waiting for longer than another container takes to start."""
        mean = self._seconds / self._actions if self._actions else _TYPICAL_S
        return waiting * mean / max(1, containers) > self.start_s


def start(
    daemon: Daemon, what: str, image: str, host: dict[str, Any], container: dict[str, Any]
) -> tuple[str, socket.socket]:
    """Start a container: its identifier, and the connection to its standard streams. Raises InfrastructureError."""
    api: Any = daemon.client.api
    identifier = ""
    with daemon.plainly(f"starting a container of {what}"):
        try:
            identifier = api.create_container(image, host_config=api.create_host_config(**host), **container)["Id"]
            # Before it starts, so that no word is lost.
            stream = api.attach_socket(identifier, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            connection = _own(stream)
            api.start(identifier)
        except BaseException:
            if identifier:
                with contextlib.suppress(InfrastructureError):
                    remove(daemon, identifier)
            raise
    return identifier, connection


def _own(stream: Any) -> socket.socket:
    """The connection that the library got, taken out of its hands: there it would last as long as its answer does."""
    connection = socket.socket(fileno=os.dup(stream.fileno()))
    answer = getattr(stream, "_response", None)
    if answer is not None:
        answer.close()
    stream.close()
    return connection


@dataclass(kw_only=True)
class Container(WorkerLink):
    """A running container, seen from the side that sends it actions."""

    daemon: Daemon
    identifier: str
    connection: socket.socket
    #: The action's folder, as this machine sees it.
    folder: str
    #: Since when it has had what it has to do.
    since: float = 0.0
    #: Whether an action that has ended still has the folder.
    held: bool = False
    _stream: Demultiplexer = field(default_factory=Demultiplexer)
    _said: bytes = b""

    @property
    def idle(self) -> bool:
        """Whether it may be given an action."""
        return not self.pending and not self.held

    def fileno(self) -> int:
        """The descriptor on which answers arrive, for a selector."""
        return self.connection.fileno()

    def send(self, number: int, payload: Any, *, timeout_s: float, memory_mb: int) -> None:
        """Ask for the action in its folder. Where the container is gone the end of its answers tells so."""
        self.since, self.held = time.monotonic(), True
        line = self.ask(number, FOLDER, payload, timeout_s=timeout_s, memory_mb=memory_mb)
        with contextlib.suppress(OSError):
            self.connection.sendall(line)

    def receive(self) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
        """Answers that have arrived, with their payloads, and whether the worker is still there and makes sense."""
        try:
            chunk = os.read(self.fileno(), 1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            return [], False
        answer, errors = self._stream.feed(chunk)
        self._said = (self._said + errors)[-_LAST_WORDS:]
        return self.hear(answer) if answer else ([], True)

    def last_words(self) -> str:
        """Why it ended, as far as that is known: memory, or the end of what it wrote to its error output."""
        state: dict[str, Any] = {}
        with contextlib.suppress(InfrastructureError), self.daemon.plainly("asking how a container ended"):
            state = self.daemon.client.api.inspect_container(self.identifier)["State"]
        if state.get("OOMKilled"):
            return "its container ran out of memory"
        return last_line(self._said.decode(errors="replace"))

    def kill(self) -> None:
        """End it at once; its answers then end."""
        with contextlib.suppress(InfrastructureError), self.daemon.plainly("ending a container"):
            self.daemon.client.api.kill(self.identifier)

    def close(self) -> None:
        """End it, with everything that it runs, and remove it."""
        self.connection.close()
        with contextlib.suppress(InfrastructureError):
            remove(self.daemon, self.identifier)
