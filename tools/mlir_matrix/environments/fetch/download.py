"""Download one file into the store. Resume interrupted downloads, and keep a file only if its hash is right.

The ``.part`` file is locked, so that only one process downloads it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.digest import digest_file
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import acquire, check, unwritable, write_all
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.http import HttpStatusError, ProxyError, Stream, Transport, origin, shown

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

#: Bytes to read at a time: few, so that an interruption loses little and cancelling is fast.
_READ = 1 << 16
_ATTEMPTS = 3
_PAUSE = 0.5
_GONE = frozenset({404, 410})
#: The server requires authentication.
_UNAUTHORIZED = frozenset({401, 403, 407})
#: Temporary failures of a server.
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})

#: A function that gets the received bytes and the total (0 if unknown).
Progress = Callable[[int, int], None]


class NotFoundError(InfrastructureError):
    """No URL has the file any more."""


class AccessError(InfrastructureError):
    """The last URL requires authentication or cannot be reached; pip may have a password or a proxy for it."""


@dataclass(frozen=True, kw_only=True)
class WantedFile:
    """A file to download: its label, hash and size, and its URLs in the order of preference."""

    name: str
    sha256: str
    size: int | None = None
    #: Beginning of the file name in folders of files.
    file: str = ""
    addresses: tuple[str, ...] = ()


class _Failed(Exception):
    """A download from a URL failed. ``access``: another program may succeed. ``gone``: the server does not have the file."""

    def __init__(self, reason: str, *, retry: bool = False, access: bool = False, gone: bool = False) -> None:
        super().__init__(reason)
        self.retry, self.access, self.gone = retry, access, gone


def download(
    wanted: WantedFile,
    store: Artifacts,
    *,
    transport: Transport | None = None,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
    pause: float = _PAUSE,
) -> Path:
    """Download a file unless the store has it; return its path. Raise InfrastructureError, NotFoundError, Cancelled."""
    own = transport or Transport()
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        with _part(store, wanted, cancelled) as part:
            if part is None:
                return store.path(wanted.sha256)
            tell = progress or (lambda _received, _total: None)
            work = _Download(wanted=wanted, store=store, transport=own, progress=tell, cancelled=cancelled)
            return work.into(part, pause)
    except OSError as error:
        raise unwritable(f"{wanted.name} cannot be stored", error) from None
    finally:
        if transport is None:
            own.close()


def adopt(wanted: WantedFile, source: Path, store: Artifacts, *, cancelled: threading.Event | None = None) -> Path:
    """Copy a local file into the store, with the checks of a download."""
    return download(replace(wanted, addresses=(source.absolute().as_uri(),)), store, cancelled=cancelled)


def kept(wanted: WantedFile, store: Artifacts, *, cancelled: threading.Event | None = None) -> Path | None:
    """Return the file from this store or from others, or None. A damaged file is set aside."""
    while (found := store.find(wanted.sha256, wanted.size, wanted.file)) is not None:
        if found != store.path(wanted.sha256):
            return adopt(wanted, found, store, cancelled=cancelled)
        if digest_file(found) == wanted.sha256:
            return found
        store.set_aside(wanted.sha256)
    return None


@contextmanager
def _part(store: Artifacts, wanted: WantedFile, cancelled: threading.Event | None) -> Iterator[FileIO | None]:
    """Lock and open the unfinished file; yield None if another process has finished it."""
    path = store.part(wanted.sha256)
    while not store.has(wanted.sha256, wanted.size):
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0) as file:
            acquire(file.fileno(), cancelled)
            # The process that held the lock may have finished or removed the part.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    yield file
                    return
    yield None


@dataclass(kw_only=True)
class _Download:
    wanted: WantedFile
    store: Artifacts
    transport: Transport
    progress: Progress
    cancelled: threading.Event | None
    state: Hash = field(default_factory=hashlib.sha256)
    received: int = 0
    #: Whether the part contains bytes of an earlier process or of another URL.
    inherited: bool = False

    def into(self, part: FileIO, pause: float) -> Path:
        """Download the file from one of the URLs."""
        try:
            return self._fetch(part, pause)
        except OSError:
            # The disk is full, so free the space of the part.
            self._drop()
            raise

    def _fetch(self, part: FileIO, pause: float) -> Path:
        self._resume(part)
        if self._right:
            # Another process was killed after the download.
            return self._keep()
        addresses = list(self.wanted.addresses)
        gone = 0
        failure = _Failed("no URL to download it from")
        for attempt in range(_ATTEMPTS):
            for address in tuple(addresses):
                check(self.cancelled)
                try:
                    return self._from_address(address, part)
                except _Failed as error:
                    failure = error
                    gone += error.gone
                    if not error.retry:
                        addresses.remove(address)
            if not addresses or attempt + 1 == _ATTEMPTS:
                break
            (self.cancelled or threading.Event()).wait(pause * 2**attempt)
        if not self.received:
            self._drop()
        if gone and gone == len(self.wanted.addresses):
            raise NotFoundError(
                f"{self.wanted.name} is no longer available at {', '.join(map(shown, self.wanted.addresses))}"
            )
        kind = AccessError if failure.access else InfrastructureError
        raise kind(f"{self.wanted.name} cannot be downloaded: {failure}")

    def _from_address(self, address: str, part: FileIO) -> Path:
        self._attempt(address, part)
        if self.inherited and not self._right:
            # The first bytes of the part are of another file, so try again from the first byte.
            self._anew(part)
            self._attempt(address, part)
        if self._right:
            return self._keep()
        found = self.state.hexdigest()
        self._anew(part)
        reason = f"the file has another hash than in the lock file: sha256 {found}, expected {self.wanted.sha256}"
        raise _Failed(f"{reason} ({shown(address)})")

    @property
    def _right(self) -> bool:
        return self.state.hexdigest() == self.wanted.sha256

    def _keep(self) -> Path:
        return self.store.keep(self.store.part(self.wanted.sha256), self.wanted.sha256)

    def _resume(self, part: FileIO) -> None:
        """Hash the bytes of an interrupted download."""
        there = os.fstat(part.fileno()).st_size
        if self.wanted.size is not None and there > self.wanted.size:
            self._anew(part)
            return
        part.seek(0)
        while data := part.read(1 << 20):
            check(self.cancelled)
            self.state.update(data)
            self.received += len(data)
        self.inherited = self.received > 0

    def _anew(self, part: FileIO) -> None:
        part.seek(0)
        part.truncate()
        self.state, self.received, self.inherited = hashlib.sha256(), 0, False

    def _attempt(self, address: str, part: FileIO) -> None:
        if self.received and self.received == self.wanted.size:
            return
        try:
            try:
                stream = self.transport.open(address, self.received)
            except HttpStatusError as error:
                # Status 416 means that the server's file is shorter than our part.
                if error.status != 416 or not self.received:
                    raise
                self._anew(part)
                stream = self.transport.open(address)
        except HttpStatusError as error:
            raise _Failed(
                f"the server answers '{error}' ({shown(address)})",
                retry=error.status in _LATER, access=error.status in _UNAUTHORIZED, gone=error.status in _GONE,
            ) from None  # fmt: skip
        except OSError as error:
            check(self.cancelled)
            way = f" through the proxy {origin(error.proxy)}" if isinstance(error, ProxyError) else ""
            reason = f"{origin(address)} cannot be reached{way}: {error.strerror or error}"
            raise _Failed(reason, retry=True, access=True) from None
        try:
            self._read(stream, part, shown(address))
        finally:
            stream.close()

    def _read(self, stream: Stream, part: FileIO, where: str) -> None:
        if stream.start != self.received:
            # The server does not support ranges.
            self._anew(part)
        self.inherited = self.received > 0
        size = self.wanted.size
        if size is not None and stream.size is not None and stream.size != size:
            raise _Failed(f"the file has {stream.size} bytes, expected {size} ({where})")
        expected = size if size is not None else stream.size
        part.seek(self.received)
        while True:
            check(self.cancelled)
            try:
                data = stream.read(_READ)
            except OSError as error:
                check(self.cancelled)
                raise _Failed(
                    f"the connection failed after {self.received} bytes: {error} ({where})", retry=True
                ) from None
            if not data:
                break
            if expected is not None and self.received + len(data) > expected:
                self._anew(part)
                raise _Failed(f"the file is longer than {expected} bytes ({where})")
            write_all(part.fileno(), data)
            self.state.update(data)
            self.received += len(data)
            self.progress(self.received, expected or 0)
        check(self.cancelled)
        if expected is not None and self.received < expected:
            raise _Failed(f"the connection ended after {self.received} of {expected} bytes ({where})", retry=True)

    def _drop(self) -> None:
        with suppress(OSError):
            os.unlink(self.store.part(self.wanted.sha256))
