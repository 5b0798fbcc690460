"""A server on this machine that misbehaves on request, and ports for servers that do not choose their own."""

from __future__ import annotations

import http.server
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: Below the ports that Linux gives to those who ask for any, so that no client has one of these by chance.
_PORTS = range(20_000, 32_000)


def choose_port() -> int:
    """Return a port at random that nothing on this machine listens on now."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


@dataclass
class Behaviour:
    """What the server does; tests change it."""

    root: Path
    ranges: bool = True
    #: Answers that end after so many bytes, one number an answer.
    cut: list[int] = field(default_factory=list)
    #: Answers without the file, one status an answer.
    refuse: list[int] = field(default_factory=list)
    #: Sent after the file.
    more: bytes = b""
    redirect: str = ""
    #: Whether to say how long an answer is.
    length: bool = True
    #: Set: an answer stops in the middle until this is set.
    hold: threading.Event | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    address: str = ""
    reached: threading.Event = field(default_factory=threading.Event)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behaviour: Behaviour

    def do_GET(self) -> None:
        behaviour = self.behaviour
        behaviour.requests.append((self.path, self.headers.get("Range", "")))
        behaviour.connections.add(self.client_address)
        if behaviour.redirect and not self.path.startswith("/moved"):
            self._head(302, b"", {"Location": behaviour.redirect})
            return
        path = behaviour.root / self.path.lstrip("/").removeprefix("moved/")
        status = behaviour.refuse.pop(0) if behaviour.refuse else 200 if path.is_file() else 404
        if status == 200:
            self._send(path.read_bytes())
        else:
            self._head(status, b"no", {})
            self.wfile.write(b"no")

    def _send(self, data: bytes) -> None:
        behaviour = self.behaviour
        start = self._start()
        if start and start >= len(data):
            self._head(416, b"", {})
            return
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        body = data[start:] + behaviour.more
        self._head(206 if start else 200, body, headers)
        end = behaviour.cut.pop(0) if behaviour.cut else len(body)
        middle = len(body) // 2 if behaviour.hold else 0
        self.wfile.write(body[:middle])
        if behaviour.hold:
            behaviour.reached.set()
            behaviour.hold.wait(120)
        self.wfile.write(body[middle:end])
        if end < len(body) or not behaviour.length:
            self.close_connection = True

    def _start(self) -> int:
        wanted = self.headers.get("Range", "")
        return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.behaviour.ranges else 0

    def _head(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.behaviour.length or status != 200:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # As many as ask at once.
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what is tested."""


@contextmanager
def serve(root: Path) -> Iterator[Behaviour]:
    """A server for the files of a folder."""
    behaviour = Behaviour(root)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"behaviour": behaviour}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    behaviour.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield behaviour
    finally:
        if behaviour.hold:
            behaviour.hold.set()
        server.shutdown()
        server.server_close()
