"""Open a URL at a byte offset: files, and http and https, also through proxies, over connections that are kept open.

Only the caller may name a file. A server may redirect to other servers, but not to files.

Connections stay open because a release has some fifty files on one host (47 packages of 130 MB: 0.3 s instead of 6 s).
"""

from __future__ import annotations

import functools
import os
import re
import socket
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
from urllib3.util import Url, make_headers, parse_url

from mlir_matrix.base.text import harmless

_TIMEOUT_S = 30.0
_MOST_REDIRECTS = 5
_SCHEMES = ("http", "https", "file")
#: The most open connections to one host: at least one for each thread that downloads.
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

    def proxy(self, url: Url) -> str:
        """Return the proxy for a URL; empty for none."""
        host = url.host or ""
        found = self.proxies.get(f"{url.scheme}://{host}") or self.proxies.get(url.scheme or "", "")
        return "" if found in _NO_PROXY or urllib.request.proxy_bypass(host.strip("[]")) else found


class Transport:
    """Connections, one per thread and host. ``routes`` is called before the first one."""

    def __init__(self, *, routes: Callable[[], Routes] = Routes) -> None:
        self._find_routes = routes
        self._guard = threading.Lock()
        self._managers: dict[str, urllib3.PoolManager] = {}
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._closed = False

    @functools.cached_property
    def _routes(self) -> Routes:
        return self._find_routes()

    def open(self, address: str, start: int = 0) -> Stream:
        """Request ``address`` from byte ``start`` on. Raise HttpStatusError, ProxyError, OSError."""
        for _ in range(_MOST_REDIRECTS):
            url = _parse(address)
            if url.scheme == "file":
                return _open_file(url, start)
            response = self._ask(url, start, self._routes.proxy(url))
            location = response.get_redirect_location()
            if not location:
                return _stream(response, start)
            response.drain_conn()
            address = _moved(address, location)
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
            managers = list(self._managers.values())
            self._managers.clear()
        for manager in managers:
            for key in manager.pools.keys():  # noqa: SIM118 - it is no dict, and cannot be iterated
                manager.pools[key].close()

    def _ask(self, url: Url, start: int, proxy: str) -> urllib3.BaseHTTPResponse:
        headers = make_headers(user_agent="mlir-matrix", accept_encoding="identity", basic_auth=_login(url))
        if start:
            headers["Range"] = f"bytes={start}-"
        # Remove the login, because a proxy gets the whole URL.
        address = url._replace(auth=None, fragment=None).url
        try:
            manager = self._manager(proxy)
            ask = functools.partial(
                manager.urlopen, "GET", address, headers=headers, redirect=False, retries=False, preload_content=False,
                decode_content=False, enforce_content_length=False,
            )  # fmt: skip
            try:
                return ask()
            except urllib3.exceptions.ProtocolError:
                # A server may close an open connection at any moment.
                self._check()
                return ask()
        except urllib3.exceptions.HTTPError as error:
            self._check()
            if refused := _TUNNEL.search(_reason(error)):
                raise HttpStatusError(int(refused[1]), refused[2]) from None
            if isinstance(error, urllib3.exceptions.ProxyError):
                raise ProxyError(_reason(error), proxy) from None
            raise OSError(_reason(error)) from None

    def _manager(self, proxy: str) -> urllib3.PoolManager:
        with self._guard:
            if proxy not in self._managers:
                self._managers[proxy] = self._new_manager(proxy)
            return self._managers[proxy]

    def _new_manager(self, proxy: str) -> urllib3.PoolManager:
        authorities = self._routes.authorities or None
        options: dict[str, Any] = {"maxsize": _MOST_KEPT, "timeout": _TIMEOUT_S, "ca_certs": authorities}
        manager = urllib3.PoolManager(**options)
        if proxy:
            url = _parse_proxy(proxy)
            login = make_headers(proxy_basic_auth=_login(url))
            manager = urllib3.ProxyManager(url._replace(auth=None).url, proxy_headers=login, **options)
        manager.pool_classes_by_scheme = _pool_classes(self._opened)
        return manager

    def _opened(self, opened: socket.socket) -> None:
        with self._guard:
            self._sockets.add(opened)
        if self._closed:
            opened.close()
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise ConnectionAbortedError("cancelled")


def _pool_classes(opened: Callable[[socket.socket], None]) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """Return classes of pools that call ``opened`` with every socket, also with one that waits for a proxy."""

    class Http(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            made = super()._new_conn()
            opened(made)
            return made

    class Https(Http, HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            # TLS has wrapped the first socket.
            assert self.sock is not None
            opened(self.sock)

    class HttpPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Https

    return {"http": HttpPool, "https": HttpsPool}


def _parse_proxy(proxy: str) -> Url:
    """Parse the address of a proxy, which may be a host alone. Raise ProxyError."""
    url = parse_url(proxy if "://" in proxy else f"http://{proxy}")
    if url.scheme not in ("http", "https") or not url.host:
        raise ProxyError(f"'{url.scheme}' proxies are not supported; expected http or https", proxy)
    return url


def _login(url: Url) -> str | None:
    """Return ``user:password`` of a URL; None without a user."""
    if url.auth is None:
        return None
    user, _, password = url.auth.partition(":")
    return urllib.parse.unquote(f"{user}:{password}")


def shown(address: str) -> str:
    """Return a URL without login, for messages and logs."""
    before, separator, after = address.partition("://")
    host, slash, path = after.partition("/")
    return f"{before}{separator}{host.rpartition('@')[2]}{slash}{path}"


def origin(address: str) -> str:
    """Return scheme and host of a URL, without login."""
    before, separator, after = shown(address).rpartition("://")
    return f"{before}{separator}{after.partition('/')[0]}"


def _parse(address: str) -> Url:
    try:
        url = parse_url(address)
    except ValueError as error:
        raise HttpStatusError(400, f"invalid URL: {error}") from None
    if url.scheme not in _SCHEMES:
        raise HttpStatusError(400, f"unsupported scheme '{url.scheme}'; expected one of {', '.join(_SCHEMES)}")
    return url


def _moved(address: str, location: str) -> str:
    """Return the target of a redirection. Raise HttpStatusError if it is not allowed."""
    try:
        target = urllib.parse.urljoin(address, location)
    except ValueError as error:
        raise HttpStatusError(400, f"redirected to an invalid URL: {error}") from None
    schemes = [_parse(each).scheme for each in (address, target)]
    if schemes[1] == "file" or schemes == ["https", "http"]:
        raise HttpStatusError(400, f"redirected from {schemes[0]} to {schemes[1]}, which is not allowed")
    return target


def _stream(response: urllib3.BaseHTTPResponse, start: int) -> Stream:
    """Return the body of a response. Raise HttpStatusError, OSError."""
    if response.status not in (200, 206):
        # Read to the end, so that the connection can be used again.
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


def _open_file(url: Url, start: int) -> Stream:
    try:
        # O_NONBLOCK, because opening a pipe would block.
        descriptor = os.open(urllib.request.url2pathname(url.path or ""), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
