"""Open an address at a byte: http and https, also through proxies, over connections that are kept, and files.

Only the caller may name a file: a server may redirect to another server and nowhere else.

A release is some fifty files from one host. Asking for each over a connection of its own took twenty times as long as
keeping one connection a thread (measured, 47 packages of 130 MB: 6 s against 0.3 s).
"""

from __future__ import annotations

import functools
import os
import re
import socket
import ssl
import stat
import threading
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import make_headers

TIMEOUT = 30.0
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SCHEMES = ("http", "https", "file")
#: Connections to one host that are kept: at least the threads that download.
_MOST_KEPT = 16
#: How apt spells it.
_NO_PROXY = ("DIRECT", "false")
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3}) ?(.*)")


class HttpStatusError(Exception):
    """A server answered without the file; ``status`` as in HTTP (404 for a missing local file as well)."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}".strip())
        self.status = status


class ProxyError(OSError):
    """A connection through the proxy at the address ``proxy`` failed."""

    def __init__(self, reason: str, proxy: str) -> None:
        super().__init__(reason)
        self.proxy = proxy


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An open answer: it begins at byte ``start``; ``size`` of the whole file, or None if unknown. ``read`` raises OSError."""

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
    """Connections, one to a host for every thread. ``routes`` is called for the first server."""

    def __init__(self, *, timeout: float = TIMEOUT, routes: Callable[[], Routes] = Routes) -> None:
        self._timeout = timeout
        self._find_routes = routes
        self._guard = threading.Lock()
        self._pools: dict[tuple[str, str], urllib3.PoolManager] = {}
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._closed = False

    @functools.cached_property
    def _routes(self) -> Routes:
        return self._find_routes()

    def open(self, address: str, start: int = 0) -> Stream:
        """Ask for ``address`` from byte ``start`` on. Raises HttpStatusError, ProxyError, OSError."""
        for _ in range(_MOST_REDIRECTS):
            parts = _split(address)
            if parts.scheme == "file":
                return _open_file(parts, start)
            response = self._ask(parts, start, self._routes.proxy(parts))
            if response.status not in _REDIRECTS:
                return _stream(response, start)
            response.drain_conn()
            address = _moved(address, response.headers.get("Location", ""))
        raise HttpStatusError(508, "too many redirections")

    def abort(self) -> None:
        """End all connections at once, also those that other threads wait for."""
        with self._guard:
            self._closed = True
            sockets = list(self._sockets)
        for each in sockets:
            # Only this wakes up a thread that reads; the file descriptor stays, or that thread might read another's.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections that no thread uses."""
        with self._guard:
            managers = list(self._pools.values())
            self._pools.clear()
        for manager in managers:
            for key in manager.pools.keys():  # noqa: SIM118 - it is no dict, and cannot be iterated
                manager.pools[key].close()

    def _ask(self, parts: urllib.parse.SplitResult, start: int, proxy: str) -> urllib3.BaseHTTPResponse:
        pool = self._pool(parts.scheme, proxy)
        headers = {"User-Agent": "mlir-matrix", "Accept-Encoding": "identity"}
        if login := _login(parts):
            headers |= make_headers(basic_auth=login)
        if start:
            headers["Range"] = f"bytes={start}-"
        # Without the login: a proxy is told the whole address.
        address = urllib.parse.urlunsplit((parts.scheme, _host(parts), parts.path or "/", parts.query, ""))
        ask = functools.partial(
            pool.urlopen, "GET", address, headers=headers, redirect=False, retries=False, preload_content=False,
            decode_content=False, enforce_content_length=False,
        )  # fmt: skip
        try:
            try:
                return ask()
            except urllib3.exceptions.ProtocolError:
                # A server may end a kept connection at any moment: that is no failure.
                self._check()
                return ask()
        except urllib3.exceptions.HTTPError as error:
            self._check()
            if refused := _TUNNEL.search(_reason(error)):
                raise HttpStatusError(int(refused[1]), refused[2]) from None
            if isinstance(error, urllib3.exceptions.ProxyError):
                raise ProxyError(_reason(error), proxy) from None
            raise OSError(_reason(error)) from None

    def _pool(self, scheme: str, proxy: str) -> urllib3.PoolManager:
        with self._guard:
            if (scheme, proxy) not in self._pools:
                self._pools[scheme, proxy] = self._new_pool(scheme, proxy)
            return self._pools[scheme, proxy]

    def _new_pool(self, scheme: str, proxy: str) -> urllib3.PoolManager:
        via = _proxy_parts(proxy) if proxy else None
        options: dict[str, Any] = {"maxsize": _MOST_KEPT, "timeout": self._timeout}
        secure = "https" in (scheme, via.scheme if via else "")
        context = ssl.create_default_context(cafile=self._routes.authorities or None) if secure else None
        if context:
            options["ssl_context"] = context
        if via:
            login = _login(via)
            headers = make_headers(proxy_basic_auth=login) if login else None
            pool: urllib3.PoolManager = urllib3.ProxyManager(
                f"{via.scheme}://{_host(via)}", proxy_headers=headers, proxy_ssl_context=context, **options
            )
        else:
            pool = urllib3.PoolManager(**options)
        # So that abort() reaches every socket, also one that waits for a proxy's answer.
        note = {"opened": staticmethod(self._opened)}
        pool.pool_classes_by_scheme = {
            "http": type("_Pool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": type("_C", (_Http,), note)}),
            "https": type("_Pool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": type("_C", (_Https,), note)}),
        }
        return pool

    def _opened(self, opened: socket.socket) -> None:
        with self._guard:
            self._sockets.add(opened)
        if self._closed:
            opened.close()
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise ConnectionAbortedError("no longer wanted")


class _Http(HTTPConnection):
    opened: Callable[[socket.socket], None]

    def _new_conn(self) -> socket.socket:
        made = super()._new_conn()
        self.opened(made)
        return made


class _Https(HTTPSConnection):
    opened: Callable[[socket.socket], None]

    def _new_conn(self) -> socket.socket:
        made = super()._new_conn()
        self.opened(made)
        return made

    def connect(self) -> None:
        super().connect()
        # Another one than before: TLS has wrapped it.
        assert self.sock is not None
        self.opened(self.sock)


def _host(parts: urllib.parse.SplitResult) -> str:
    """Return the host and port of an address, without the login that may be in it."""
    return parts.netloc.rpartition("@")[2]


def _proxy_parts(proxy: str) -> urllib.parse.SplitResult:
    """Read the address of a proxy, which may be a host alone. Raises ProxyError."""
    parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ProxyError(f"'{parts.scheme}' proxies are not supported; expected http or https", proxy)
    return parts


def _login(parts: urllib.parse.SplitResult) -> str:
    """Return ``user:password`` of an address; empty without one."""
    if parts.username is None:
        return ""
    return f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"


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
        raise HttpStatusError(400, f"this is no address: {error}") from None
    if parts.scheme not in _SCHEMES:
        raise HttpStatusError(400, f"'{parts.scheme}' is no scheme that is known here: {', '.join(_SCHEMES)}")
    return parts


def _moved(address: str, location: str) -> str:
    """Where to ask next. Raises HttpStatusError for what a server may not send us to."""
    try:
        target = urllib.parse.urljoin(address, location)
    except ValueError as error:
        raise HttpStatusError(400, f"it is said to have moved to what is no address: {error}") from None
    schemes = [_split(each).scheme for each in (address, target)]
    if schemes[1] == "file" or schemes == ["https", "http"]:
        raise HttpStatusError(
            400, f"it is said to have moved from {schemes[0]} to {schemes[1]}, and that is not followed"
        )
    return target


def _stream(response: urllib3.BaseHTTPResponse, start: int) -> Stream:
    """Return what the headers promise. Raises HttpStatusError, OSError."""
    if response.status not in (200, 206):
        # Read to the end, the connection serves the next request.
        response.drain_conn()
        raise HttpStatusError(response.status, response.reason or "")
    length = response.headers.get("Content-Length", "")
    begins = 0
    if response.status == 206:
        if response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0] != str(start):
            response.close()
            raise OSError(f"asked for bytes from {start}, offered others")
        begins = start
    size = begins + int(length) if length.isdigit() else None

    def read(most: int) -> bytes:
        try:
            return response.read(most)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(_reason(error)) from None

    return Stream(start=begins, size=size, read=read, close=response.close)


def _reason(error: BaseException) -> str:
    """Return the message of the innermost error: what the operating system or the other side said."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        inner = getattr(error, "original_error", None) or error.__cause__
        inner = inner or next((each for each in error.args if isinstance(each, BaseException)), None)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _open_file(parts: urllib.parse.SplitResult, start: int) -> Stream:
    try:
        # Not blocking: opening a pipe would wait for whoever writes into it.
        descriptor = os.open(urllib.request.url2pathname(parts.path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise HttpStatusError(404, "no such file") from None
    except OSError as error:
        raise HttpStatusError(403, error.strerror or "cannot be read") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise HttpStatusError(403, "is no regular file")
    # Closed by whoever reads the stream.
    file = open(descriptor, "rb")  # noqa: SIM115
    start = min(start, status.st_size)
    file.seek(start)
    return Stream(start=start, size=status.st_size, read=file.read, close=file.close)
