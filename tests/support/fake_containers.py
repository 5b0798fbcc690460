"""A daemon as far as slots need one: containers are sockets whose other ends a test has."""

from __future__ import annotations

import socket
from contextlib import nullcontext
from typing import Any


class Fake:
    """In the shape of ``Daemon`` and of its library, which are one here."""

    def __init__(self, *, code: int = 0, out_of_memory: bool = False) -> None:
        self.client = self.api = self
        self.started: list[list[str]] = []
        self.ends: list[socket.socket] = []
        self.removed: list[str] = []
        self._ours: list[socket.socket] = []
        self._code = code
        self._out_of_memory = out_of_memory

    def start(
        self, _daemon: Any, _what: str, _image: str, _host: Any, config: dict[str, Any]
    ) -> tuple[str, socket.socket]:
        """What ``container.start`` does."""
        ours, theirs = socket.socketpair()
        self.started.append(config["command"])
        self.ends.append(theirs)
        self._ours.append(ours)
        return str(len(self.ends)), ours

    def hang_up(self) -> None:
        """Nobody is there any more."""
        for each in (*self.ends, *self._ours):
            each.close()

    def say(self, output: int, text: bytes) -> None:
        """The last container says something, in a frame of its stream."""
        self.ends[-1].sendall(bytes([output, 0, 0, 0]) + len(text).to_bytes(4, "big") + text)

    def wait(self, _container: str, **_: Any) -> dict[str, int]:
        return {"StatusCode": self._code}

    def containers(self, **_: Any) -> list[Any]:
        return []

    def inspect_container(self, _container: str) -> dict[str, Any]:
        return {"State": {"OOMKilled": self._out_of_memory}}

    def remove_container(self, container: str, **_: Any) -> None:
        self.removed.append(container)

    def plainly(self, _what: str) -> Any:
        return nullcontext()
