"""Open a URL at a byte offset: http and https, also through proxies, over connections that are kept, and files.

Only the caller may name a file: a server may redirect to other servers, not to files.

Connections are kept because a release is some fifty files from one host (47 packages of 130 MB: 0.3 s instead of 6 s).
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

from mlir_matrix.base.text import harmless

TIMEOUT = 30.0
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SCHEMES = ("http", "https", "file")
#: Kept connections to one host: at least one for each thread that downloads.
_MOST_KEPT = 16
#: apt's words for no proxy.
_NO_PROXY = ("DIRECT", "false")
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3}) ?(.*)")


class HttpStatusError(Exception):
    """A server refused; ``status`` as in HTTP (404 also for a missing local file)."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(harmless(f"{status} {reason}".strip()))
        self.status = status


class ProxyError(OSError):
    """A connection through the proxy at the address ``proxy`` failed."""

    def __init__(self, reason: str, proxy: str) -> None:
        super().__init__(reason)
        self.proxy = proxy


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An open response from byte ``start`` on; ``size`` of the whole file, or None if unknown. ``read`` raises OSError."""

    start: int
    size: int | None
    read: Callable[[int], bytes]
    close: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Proxies by scheme, or by ``scheme://host`` for one host (``DIRECT``: none), and certificates."""

    proxies: Mapping[str, str] = field(default_factory=urllib.request.getproxies)
    #: A file of certificates that replaces the machine's.
    authorities: str = ""

    def proxy(self, parts: urllib.parse.SplitResult) -> str:
        """Return the proxy for a URL; empty for none."""
        host = parts.hostname or ""
        found = self.proxies.get(f"{parts.scheme}://{host}") or self.proxies.get(parts.scheme, "")
        return "" if found in _NO_PROXY or urllib.request.proxy_bypass(host) else found


class Transport:
    """Connections, one per thread and host. ``routes`` is called before the first one."""

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
        """Request ``address`` from byte ``start`` on. Raise HttpStatusError, ProxyError, OSError."""
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
            # Only shutdown wakes a thread that reads. close() would free its file descriptor for another file.
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
        # Without the login, because a proxy gets the whole URL.
        address = urllib.parse.urlunsplit((parts.scheme, _host(parts), parts.path or "/", parts.query, ""))
        ask = functools.partial(
            pool.urlopen, "GET", address, headers=headers, redirect=False, retries=False, preload_content=False,
            decode_content=False, enforce_content_length=False,
        )  # fmt: skip
        try:
            try:
                return ask()
            except urllib3.exceptions.ProtocolError:
                # A server may end a kept connection at any moment.
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
        # abort() must reach every socket, also one that waits for a proxy.
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
            raise ConnectionAbortedError("cancelled")


class _Http(HTTPConnection):
    opened: Callable[[socket.socket], None]

    def _new_conn(self) -> socket.socket:
        made = super()._new_conn()
        self.opened(made)
        return made


class _Https(_Http, HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        # TLS has wrapped the first socket.
        assert self.sock is not None
        self.opened(self.sock)


def _host(parts: urllib.parse.SplitResult) -> str:
    """Return the host and port of an address, without the login that may be in it."""
    return parts.netloc.rpartition("@")[2]


def _proxy_parts(proxy: str) -> urllib.parse.SplitResult:
    """Parse the address of a proxy, which may be a host alone. Raise ProxyError."""
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
    """Return a URL without login, for messages and logs."""
    before, separator, after = address.partition("://")
    host, slash, path = after.partition("/")
    return f"{before}{separator}{host.rpartition('@')[2]}{slash}{path}"


def origin(address: str) -> str:
    """Return scheme and host of a URL, without login."""
    before, separator, after = shown(address).rpartition("://")
    return f"{before}{separator}{after.partition('/')[0]}"


def _split(address: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError as error:
        raise HttpStatusError(400, f"invalid URL: {error}") from None
    if parts.scheme not in _SCHEMES:
        raise HttpStatusError(400, f"unsupported scheme '{parts.scheme}'; expected one of {', '.join(_SCHEMES)}")
    return parts


def _moved(address: str, location: str) -> str:
    """Return the target of a redirection. Raise HttpStatusError if it is not allowed."""
    try:
        target = urllib.parse.urljoin(address, location)
    except ValueError as error:
        raise HttpStatusError(400, f"redirected to an invalid URL: {error}") from None
    schemes = [_split(each).scheme for each in (address, target)]
    if schemes[1] == "file" or schemes == ["https", "http"]:
        raise HttpStatusError(400, f"redirected from {schemes[0]} to {schemes[1]}, which is not allowed")
    return target


def _stream(response: urllib3.BaseHTTPResponse, start: int) -> Stream:
    """Return the body of a response. Raise HttpStatusError, OSError."""
    if response.status not in (200, 206):
        # Once read to the end, the connection can be used again.
        response.drain_conn()
        raise HttpStatusError(response.status, response.reason or "")
    length = response.headers.get("Content-Length", "")
    begins = 0
    if response.status == 206:
        if response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0] != str(start):
            response.close()
            raise OSError(f"the server sent another range than from byte {start}")
        begins = start
    size = begins + int(length) if length.isdigit() else None

    def read(most: int) -> bytes:
        try:
            return response.read(most)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(_reason(error)) from None

    return Stream(start=begins, size=size, read=read, close=response.close)


def _reason(error: BaseException) -> str:
    """Return the message of the innermost error, which is that of the system or of the server."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        inner = getattr(error, "original_error", None) or error.__cause__
        inner = inner or next((each for each in error.args if isinstance(each, BaseException)), None)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _open_file(parts: urllib.parse.SplitResult, start: int) -> Stream:
    try:
        # Otherwise, opening a pipe would block.
        descriptor = os.open(urllib.request.url2pathname(parts.path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise HttpStatusError(404, "no such file") from None
    except OSError as error:
        raise HttpStatusError(403, error.strerror or "unreadable") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise HttpStatusError(403, "not a regular file")
    file = open(descriptor, "rb")  # noqa: SIM115 - the caller closes the stream
    start = min(start, status.st_size)
    file.seek(start)
    return Stream(start=start, size=status.st_size, read=file.read, close=file.close)
