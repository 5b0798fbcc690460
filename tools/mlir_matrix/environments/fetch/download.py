"""Bring one file into the store: resumed where it ended, never longer than promised, kept only if its hash is right.

Two processes that want the same file at once take turns at its ``.part``, whose lock ends with whoever holds it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from mlir_matrix.digest import digest_file
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.http import HttpStatusError, ProxyError, Stream, Transport, origin, shown
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import acquire, check, unwritable

#: Small enough that little is lost when it ends, and that little is waited for.
_READ = 1 << 16
_ATTEMPTS = 3
_PAUSE = 0.5
_GONE = frozenset({404, 410})
#: The other side wants to know who asks.
_WHO = frozenset({401, 403, 407})
#: The other side is busy or broken for a moment.
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})

#: Called with the bytes so far and those in all (0 where nobody knows).
Progress = Callable[[int, int], None]


class NotFoundError(InfrastructureError):
    """None of the addresses has the file any more."""


class AccessError(InfrastructureError):
    """The last address wants to know who asks, or cannot be reached: others may know a password or a way."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A file to bring: what people call it, what it must be, and where it may be had, the first address first."""

    name: str
    sha256: str
    size: int | None = None
    #: What the name of the file itself begins with.
    file: str = ""
    addresses: tuple[str, ...] = ()


class _Again(Exception):
    """An attempt failed, another may not; the message says how."""


class _Unreachable(_Again):
    """Nobody answered."""


class _Wrong(Exception):
    """What is at this address is another file; asking again would not change that."""


def download(
    wanted: Wanted,
    store: Artifacts,
    *,
    transport: Transport | None = None,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
    pause: float = _PAUSE,
) -> Path:
    """The file in the store, brought if it is not there. Raises NotFoundError, InfrastructureError, locking.Cancelled."""
    own = transport or Transport()
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        with _part(store, wanted, cancelled) as part:
            if part is None:
                return store.path(wanted.sha256)
            return _Download(wanted, store, own, progress or (lambda _received, _total: None), cancelled).into(
                part, pause
            )
    except OSError as error:
        raise unwritable(f"{wanted.name} cannot be kept", error) from None
    finally:
        if transport is None:
            own.close()


def adopt(wanted: Wanted, source: Path, store: Artifacts, *, cancelled: threading.Event | None = None) -> Path:
    """A copy of a local file in the store, checked as if it had come from elsewhere."""
    local = Wanted(name=wanted.name, sha256=wanted.sha256, size=wanted.size, addresses=(source.absolute().as_uri(),))
    return download(local, store, cancelled=cancelled)


def kept(wanted: Wanted, store: Artifacts, *, cancelled: threading.Event | None = None) -> Path | None:
    """The file, from here or from others; what was damaged since it was kept is put aside. None: it has to be fetched."""
    while (found := store.find(wanted.sha256, wanted.size, wanted.file)) is not None:
        if found != store.path(wanted.sha256):
            return adopt(wanted, found, store, cancelled=cancelled)
        if digest_file(found) == wanted.sha256:
            return found
        store.set_aside(wanted.sha256)
    return None


@contextmanager
def _part(store: Artifacts, wanted: Wanted, cancelled: threading.Event | None) -> Iterator[FileIO | None]:
    """The unfinished file, ours alone; None where it was finished by somebody else meanwhile."""
    path = store.part(wanted.sha256)
    while not store.has(wanted.sha256, wanted.size):
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0) as file:
            acquire(file.fileno(), cancelled)
            # Whoever held it may have finished it, or thrown it away.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    yield file
                    return
    yield None


class _Download:
    def __init__(
        self,
        wanted: Wanted,
        store: Artifacts,
        transport: Transport,
        progress: Progress,
        cancelled: threading.Event | None,
    ) -> None:
        self._wanted = wanted
        self._store = store
        self._transport = transport
        self._progress = progress
        self._cancelled = cancelled
        self._state = hashlib.sha256()
        self._received = 0
        # Whether bytes of an earlier process, or of another address, are among them, that nobody has checked.
        self._inherited = False

    def into(self, part: FileIO, pause: float) -> Path:
        """Fetch it from one of the addresses."""
        try:
            return self._fetch(part, pause)
        except OSError:
            # Half a file on a full disk is in everybody's way.
            self._drop()
            raise

    def _fetch(self, part: FileIO, pause: float) -> Path:
        self._resume(part)
        if self._right:
            # Whoever fetched it was ended before it could say so.
            return self._keep()
        addresses = list(self._wanted.addresses)
        gone = 0
        failure = InfrastructureError("there is no address to fetch it from")
        for attempt in range(_ATTEMPTS):
            for address in tuple(addresses):
                check(self._cancelled)
                try:
                    return self._bring(address, part)
                except (_Wrong, _Again, HttpStatusError) as error:
                    failure = _failure(error, address)
                    gone += isinstance(error, HttpStatusError) and error.status in _GONE
                    if error.status not in _LATER if isinstance(error, HttpStatusError) else isinstance(error, _Wrong):
                        addresses.remove(address)
            if not addresses or attempt + 1 == _ATTEMPTS:
                break
            (self._cancelled or threading.Event()).wait(pause * 2**attempt)
        if not self._received:
            self._drop()
        if gone and gone == len(self._wanted.addresses):
            raise NotFoundError(
                f"{self._wanted.name} is no longer there: {', '.join(map(shown, self._wanted.addresses))}"
            )
        raise type(failure)(f"{self._wanted.name} cannot be fetched: {failure}")

    def _bring(self, address: str, part: FileIO) -> Path:
        self._attempt(address, part)
        if self._inherited and not self._right:
            # It began as something else; this address may still have the file.
            self._anew(part)
            self._attempt(address, part)
        if self._right:
            return self._keep()
        found = self._state.hexdigest()
        self._anew(part)
        raise _Wrong(
            f"it was offered with another hash than the lock has, and not kept: sha256 {found}, expected {self._wanted.sha256}"
        )

    @property
    def _right(self) -> bool:
        return self._state.hexdigest() == self._wanted.sha256

    def _keep(self) -> Path:
        return self._store.keep(self._store.part(self._wanted.sha256), self._wanted.sha256)

    def _resume(self, part: FileIO) -> None:
        """Hash what an earlier download left."""
        there = os.fstat(part.fileno()).st_size
        if self._wanted.size is not None and there > self._wanted.size:
            self._anew(part)
            return
        part.seek(0)
        while data := part.read(1 << 20):
            check(self._cancelled)
            self._state.update(data)
            self._received += len(data)
        self._inherited = self._received > 0

    def _anew(self, part: FileIO) -> None:
        part.seek(0)
        part.truncate()
        self._state, self._received, self._inherited = hashlib.sha256(), 0, False

    def _attempt(self, address: str, part: FileIO) -> None:
        if self._received and self._received == self._wanted.size:
            return
        try:
            try:
                stream = self._transport.open(address, self._received)
            except HttpStatusError as error:
                # It has no such byte: what we have is not the beginning of it.
                if error.status != 416 or not self._received:
                    raise
                self._anew(part)
                stream = self._transport.open(address)
        except OSError as error:
            check(self._cancelled)
            raise _Unreachable(_unreachable(error, address)) from None
        try:
            self._read(stream, part)
        finally:
            stream.close()

    def _read(self, stream: Stream, part: FileIO) -> None:
        if stream.start != self._received:
            # The other side knows no ranges.
            self._anew(part)
        self._inherited = self._received > 0
        size = self._wanted.size
        if size is not None and stream.size is not None and stream.size != size:
            raise _Wrong(f"{stream.size} bytes are offered, the lock has {size}")
        expected = size if size is not None else stream.size
        part.seek(self._received)
        while True:
            check(self._cancelled)
            try:
                data = stream.read(_READ)
            except OSError as error:
                check(self._cancelled)
                raise _Again(f"the connection ended after {self._received} bytes: {error}") from None
            if not data:
                break
            if expected is not None and self._received + len(data) > expected:
                self._anew(part)
                raise _Wrong(f"it is longer than the {expected} bytes that were promised")
            _write(part, data)
            self._state.update(data)
            self._received += len(data)
            self._progress(self._received, expected or 0)
        check(self._cancelled)
        if expected is not None and self._received < expected:
            raise _Again(f"it ended after {self._received} of {expected} bytes")

    def _drop(self) -> None:
        with suppress(OSError):
            os.unlink(self._store.part(self._wanted.sha256))


def _write(part: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[part.write(rest) :]


def _failure(error: Exception, address: str) -> InfrastructureError:
    """What is said of an address that did not give the file."""
    if isinstance(error, HttpStatusError):
        withheld, said = error.status in _WHO, f"the answer is '{error}'"
    else:
        withheld, said = isinstance(error, _Unreachable), str(error)
    where = "" if isinstance(error, _Unreachable) else f" ({shown(address)})"
    return (AccessError if withheld else InfrastructureError)(f"{said}{where}")


def _unreachable(error: OSError, address: str) -> str:
    way = f" through the proxy {origin(error.proxy)}" if isinstance(error, ProxyError) else ""
    return f"{origin(address)} cannot be reached{way}: {error.strerror or error}"
