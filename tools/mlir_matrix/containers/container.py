"""Run warm containers with a worker: each has one environment, one folder and one action at a time."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir_matrix.actions.contract import WorkResponse
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.containers.action_folder import Attributes
from mlir_matrix.containers.daemon import Daemon
from mlir_matrix.containers.privileges import FOLDER
from mlir_matrix.containers.reaper import remove
from mlir_matrix.execute.worker_process import WorkerHandle, last_line

#: Bytes of error output to keep.
_KEPT = 4096
#: Number of the output, three zero bytes, length of the frame.
_HEADER = struct.Struct(">BxxxL")
_OUTPUT, _ERRORS = 1, 2
#: Seconds of an action before the first is measured.
_TYPICAL_S = 0.02


class Demultiplexer:
    """Splits the stream of a container, which has both outputs in frames."""

    def __init__(self) -> None:
        self._buffer = b""
        self._which = 0
        #: Missing bytes of the current frame.
        self._left = 0

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Return what these bytes add to standard output and error output."""
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
    """Predicts whether another container of an environment pays: the time of its start against the waiting jobs."""

    #: Seconds from the start of a container to its first answer.
    start_s: float = 0.0
    _actions: int = 0
    _seconds: float = 0.0

    def note(self, seconds: float, *, first: bool) -> None:
        """Note the seconds of an action; ``first``: of a new container."""
        if first:
            self.start_s = seconds
        else:
            self._actions += 1
            self._seconds += seconds

    def pays(self, waiting: int, containers: int) -> bool:
        """Return whether ``waiting`` jobs take longer in the present containers than the start of another one."""
        mean = self._seconds / self._actions if self._actions else _TYPICAL_S
        return waiting * mean / max(1, containers) > self.start_s


def start(
    daemon: Daemon, what: str, image: str, host: dict[str, Any], container: dict[str, Any]
) -> tuple[str, socket.socket]:
    """Start a container. Return its identifier and a socket to its standard streams. Raise InfrastructureError."""
    api: Any = daemon.client.api
    identifier = ""
    with daemon.plainly(f"starting a container of {what}"):
        try:
            identifier = api.create_container(image, host_config=api.create_host_config(**host), **container)["Id"]
            # Before it starts, so that no output is lost.
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
    """Return a duplicate of the socket in the library's answer, which is closed."""
    connection = socket.socket(fileno=os.dup(stream.fileno()))
    answer = getattr(stream, "_response", None)
    if answer is not None:
        answer.close()
    stream.close()
    return connection


@dataclass(kw_only=True)
class Container(WorkerHandle):
    """A running container with a worker."""

    daemon: Daemon
    identifier: str
    connection: socket.socket
    #: The action's folder on this machine, and its attributes when it was new.
    folder: str
    new: Sequence[Attributes]
    #: Time of the last request.
    since: float = 0.0
    #: True until the outputs of the last action are taken.
    held: bool = False
    _stream: Demultiplexer = field(default_factory=Demultiplexer)
    _said: bytes = b""

    @property
    def idle(self) -> bool:
        """Return whether it can take a job."""
        return not self.pending and not self.held

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, payload: Any, *, timeout_s: float, memory_mb: int) -> None:
        """Request the action in the folder. If the container has ended, its answers end too."""
        self.since, self.held = time.monotonic(), True
        request = self.request(FOLDER, payload, timeout_s=timeout_s, memory_mb=memory_mb)
        with contextlib.suppress(OSError):
            self.connection.sendall(request.to_line())

    def receive(self) -> tuple[list[tuple[Any, WorkResponse]], bool]:
        try:
            chunk = os.read(self.fileno(), 1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            return [], False
        answer, errors = self._stream.feed(chunk)
        self._said = (self._said + errors)[-_KEPT:]
        return self.parse(answer) if answer else ([], True)

    def last_output(self) -> str:
        state: dict[str, Any] = {}
        with contextlib.suppress(InfrastructureError), self.daemon.plainly("inspecting a container"):
            state = self.daemon.client.api.inspect_container(self.identifier)["State"]
        if state.get("OOMKilled"):
            return "its container ran out of memory"
        return last_line(self._said.decode(errors="replace"))

    def kill(self) -> None:
        with contextlib.suppress(InfrastructureError), self.daemon.plainly("ending a container"):
            self.daemon.client.api.kill(self.identifier)

    def stop(self) -> None:
        self.connection.close()
        with contextlib.suppress(InfrastructureError):
            remove(self.daemon, self.identifier)
