"""Open an address at a byte: http and https, also through proxies, over connections that are kept, and files.

Only who asks may name a file: a server that says that something has moved may name another server and no more.

A release is some fifty files from one host. Asking for each over a connection of its own took twenty times as long as
keeping one connection a thread (measured, 47 packages of 130 MB: 6 s against 0.3 s).
"""

from __future__ import annotations

import base64
import functools
import http.client
import os
import re
import socket
import ssl
import stat
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

TIMEOUT = 30.0
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SCHEMES = ("http", "https", "file")
#: As apt says it.
_NO_PROXY = ("DIRECT", "false")
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3}) ?(.*)")

#: What a connection may fail with; trying again may help.
TROUBLE = (OSError, http.client.HTTPException)


class Refused(Exception):
    """The other side answered, but not with the file; ``status`` as in HTTP (404 as well for a file that is not there)."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}".strip())
        self.status = status


class NoWay(OSError):
    """A connection by a proxy failed; ``proxy`` is the address of that."""

    def __init__(self, reason: str, proxy: str) -> None:
        super().__init__(reason)
        self.proxy = proxy


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An answer that is being read: it begins at byte ``start``; ``size`` of the whole, where the other side says so."""

    start: int
    size: int | None
    read: Callable[[int], bytes]
    close: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Routes:
    """How servers are reached: proxies by scheme, or by ``scheme://host`` where one has its own (``DIRECT``: none)."""

    proxies: Mapping[str, str] = field(default_factory=urllib.request.getproxies)
    #: A file of certificates that count in place of the machine's.
    authorities: str = ""

    def proxy(self, parts: urllib.parse.SplitResult) -> str:
        """The proxy for an address; empty: none."""
        host = parts.hostname or ""
        found = self.proxies.get(f"{parts.scheme}://{host}") or self.proxies.get(parts.scheme, "")
        return "" if found in _NO_PROXY or urllib.request.proxy_bypass(host) else found


class Transport:
    """Connections, one to a host for every thread. ``routes`` is asked when the first server is."""

    def __init__(self, *, timeout: float = TIMEOUT, routes: Callable[[], Routes] = Routes) -> None:
        self._timeout = timeout
        self._find_routes = routes
        self._local = threading.local()
        self._guard = threading.Lock()
        #: With their sockets, which a connection forgets when the other side will close it; None while it is made.
        self._open: dict[http.client.HTTPConnection, socket.socket | None] = {}
        self._closed = False

    @functools.cached_property
    def _routes(self) -> Routes:
        return self._find_routes()

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._routes.authorities or None)

    def open(self, address: str, start: int = 0) -> Stream:
        """Ask for ``address`` from byte ``start`` on. Raises Refused, and what is in TROUBLE."""
        for _ in range(_MOST_REDIRECTS):
            parts = _split(address)
            if parts.scheme == "file":
                return _open_file(parts, start)
            response, close = self._ask(parts, start, self._routes.proxy(parts))
            if response.status not in _REDIRECTS:
                return _answer(response, start, close)
            response.read()
            close()
            address = _moved(address, response.headers.get("Location", ""))
        raise Refused(508, "too many redirections")

    def abort(self) -> None:
        """End all connections at once, also those that other threads are waiting for."""
        with self._guard:
            self._closed = True
            connections = list(self._open.items())
        for connection, kept in connections:
            # Only this wakes up a thread that reads; the file descriptor stays, or that thread might read another's.
            with suppress(OSError, AttributeError):
                (kept or connection.sock).shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections. No thread uses them any more."""
        with self._guard:
            connections = list(self._open)
            self._open.clear()
        for connection in connections:
            connection.close()

    def _ask(
        self, parts: urllib.parse.SplitResult, start: int, proxy: str
    ) -> tuple[http.client.HTTPResponse, Callable[[], None]]:
        """The answer, and what ends it: a connection on which the rest of an answer waits cannot be used again."""
        kept: dict[tuple[str, str], http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        key = (parts.scheme, parts.netloc)
        headers = {"User-Agent": "mlir-matrix", "Accept-Encoding": "identity", **_login("Authorization", parts)}
        if start:
            headers["Range"] = f"bytes={start}-"
        server = ("", "")
        if proxy and parts.scheme == "http":
            # To such a proxy the whole address is said; through others there is a tunnel.
            server = ("http", _host(parts))
            headers |= _login("Proxy-Authorization", _proxy_parts(proxy))
        target = urllib.parse.urlunsplit((*server, parts.path or "/", parts.query, ""))
        while True:
            connection = kept.get(key)
            if connection is not None and connection.sock is None:
                self._drop(connection)
                connection = None
            fresh = connection is None
            if connection is None:
                connection = kept[key] = self._connect(parts, proxy)
            try:
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
            except TROUBLE:
                kept.pop(key, None)
                self._drop(connection)
                # The other side may end a kept connection at any moment: that is no failure.
                if fresh or self._closed:
                    raise
            else:
                return response, functools.partial(_end, connection, response)

    def _connect(self, parts: urllib.parse.SplitResult, proxy: str) -> http.client.HTTPConnection:
        via = _proxy_parts(proxy) if proxy else parts
        if "https" in (parts.scheme, via.scheme):
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                _host(via), timeout=self._timeout, context=self._context
            )
        else:
            made = http.client.HTTPConnection(_host(via), timeout=self._timeout)
        if proxy and parts.scheme == "https":
            made.set_tunnel(_host(parts), headers=_login("Proxy-Authorization", via))
        with self._guard:
            # Before it connects, so that one that waits for a proxy's answer can be ended.
            self._open[made] = None
        try:
            made.connect()
            with self._guard:
                if self._closed:
                    raise ConnectionAbortedError("no longer wanted")
                self._open[made] = made.sock
        except TROUBLE as error:
            self._drop(made)
            if not proxy or self._closed or not isinstance(error, OSError):
                raise
            if refused := _TUNNEL.search(str(error)):
                raise Refused(int(refused[1]), refused[2]) from None
            raise NoWay(error.strerror or str(error), proxy) from None
        return made

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._guard:
            self._open.pop(connection, None)


def _host(parts: urllib.parse.SplitResult) -> str:
    """Return the host and port of an address, without the login that may be in it."""
    return parts.netloc.rpartition("@")[2]


def _proxy_parts(proxy: str) -> urllib.parse.SplitResult:
    """Read the address of a proxy, which may be a host alone. Raises NoWay."""
    parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NoWay(f"'{parts.scheme}' proxies are not supported; expected http or https", proxy)
    return parts


def _login(header: str, parts: urllib.parse.SplitResult) -> dict[str, str]:
    """Return the header that says who asks, where an address does."""
    if parts.username is None:
        return {}
    login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return {header: f"Basic {base64.b64encode(login.encode()).decode()}"}


def shown(address: str) -> str:
    """An address as people may see it, in logs too: without the password that may be in it."""
    before, separator, after = address.partition("://")
    host, slash, path = after.partition("/")
    return f"{before}{separator}{host.rpartition('@')[2]}{slash}{path}"


def origin(address: str) -> str:
    """The scheme and the host of an address, as people may see them."""
    before, separator, after = shown(address).rpartition("://")
    return f"{before}{separator}{after.partition('/')[0]}"


def _split(address: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError as error:
        raise Refused(400, f"this is no address: {error}") from None
    if parts.scheme not in _SCHEMES:
        raise Refused(400, f"'{parts.scheme}' is no scheme that is known here: {', '.join(_SCHEMES)}")
    return parts


def _moved(address: str, location: str) -> str:
    """Where to ask next. Raises Refused for what a server may not send us to."""
    try:
        target = urllib.parse.urljoin(address, location)
    except ValueError as error:
        raise Refused(400, f"it is said to have moved to what is no address: {error}") from None
    schemes = [_split(each).scheme for each in (address, target)]
    if schemes[1] == "file" or schemes == ["https", "http"]:
        raise Refused(400, f"it is said to have moved from {schemes[0]} to {schemes[1]}, and that is not followed")
    return target


def _end(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
    complete = response.isclosed()
    response.close()
    if not complete:
        connection.close()


def _answer(response: http.client.HTTPResponse, start: int, close: Callable[[], None]) -> Stream:
    """What the headers promise. Raises Refused."""
    status, headers = response.status or 0, response.headers
    if status not in (200, 206):
        # Read, so that the connection can be used again.
        response.read()
        close()
        raise Refused(status, response.reason)
    length = headers.get("Content-Length", "")
    rest = int(length) if length.isdigit() else None
    begins = 0
    if status == 206:
        words = headers.get("Content-Range", "").removeprefix("bytes ").partition("-")
        if words[0] != str(start):
            close()
            raise http.client.HTTPException(f"asked for bytes from {start}, offered others")
        begins = start
    size = None if rest is None else begins + rest
    return Stream(start=begins, size=size, read=response.read, close=close)


def _open_file(parts: urllib.parse.SplitResult, start: int) -> Stream:
    try:
        # Not blocking: opening a pipe would wait for whoever writes into it.
        descriptor = os.open(urllib.request.url2pathname(parts.path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise Refused(404, "no such file") from None
    except OSError as error:
        raise Refused(403, error.strerror or "cannot be read") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused(403, "is no regular file")
    # Closed by whoever reads the stream.
    file = open(descriptor, "rb")  # noqa: SIM115
    start = min(start, status.st_size)
    file.seek(start)
    return Stream(start=start, size=status.st_size, read=file.read, close=file.close)
