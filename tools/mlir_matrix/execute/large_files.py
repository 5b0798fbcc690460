"""Copy and hash large files in pieces, in threads beside the scheduler's loop.

A file is large if starting a thread takes less time than processing the file in the loop.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mlir_matrix.base.files import write_all

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

#: Bytes above which a file is large.
LARGE = 4 << 20
#: Bytes to read at a time. Hashing them takes milliseconds. A thread can stop after each piece.
_PIECE = 1 << 20
_THREADS = 4
#: ``FICLONE`` of linux/fs.h: copy-on-write.
_CLONE = 0x40049409
#: Errors of file systems that cannot clone files, or copy them in the kernel.
_CANNOT = frozenset((errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBADF))

#: Device, inode, size and modification time. They change if a file is written to or replaced.
Identity = tuple[int, int, int, int]


class DifferentBytesError(OSError):
    """A file does not have the expected digest."""


def identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def hash_file(path: str, stop: threading.Event | None = None) -> tuple[str, Identity]:
    """Return the SHA-256 of a file that is no link, and its identity before it was read."""
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = identity(os.fstat(source))
        state = hashlib.sha256()
        for piece in _pieces(source, stop):
            state.update(piece)
        return state.hexdigest(), found
    finally:
        os.close(source)


def copy_file(path: str, copy: str, digest: str | None, stop: threading.Event | None = None) -> None:
    """Copy a file to a new one atomically.

    ``digest``: the SHA-256 to check, or None. The copy is never a hard link: root may write through one. Raise
    DifferentBytesError.
    """
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(f"{copy}.part", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            _copy(source, target, digest, stop)
            os.rename(f"{copy}.part", copy)
        except BaseException:
            os.unlink(f"{copy}.part")
            raise
        finally:
            os.close(target)
    finally:
        os.close(source)


def _copy(source: int, target: int, digest: str | None, stop: threading.Event | None) -> None:
    cloned = _clone(source, target)
    if digest is None:
        if not cloned:
            _copy_by_kernel(source, target, stop)
        return
    state = hashlib.sha256()
    for piece in _pieces(target if cloned else source, stop):
        state.update(piece)
        if not cloned:
            write_all(target, piece)
    if state.hexdigest() != digest:
        raise DifferentBytesError(errno.EIO, "its bytes differ from its digest")


def _clone(source: int, target: int) -> bool:
    """Make the target a copy-on-write clone of the source, if the file system supports it."""
    try:
        fcntl.ioctl(target, _CLONE, source)
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    return True


def _copy_by_kernel(source: int, target: int, stop: threading.Event | None) -> None:
    """Copy in the kernel if the file system supports it."""
    try:
        while os.copy_file_range(source, target, _PIECE):
            _check(stop)
    except OSError as error:
        if error.errno not in _CANNOT or os.fstat(target).st_size:
            raise
        for piece in _pieces(source, stop):
            write_all(target, piece)


def _pieces(descriptor: int, stop: threading.Event | None) -> Iterator[memoryview]:
    """Yield the content of an open file; a piece is valid until the next one."""
    buffer = memoryview(bytearray(_PIECE))
    while count := os.readv(descriptor, [buffer]):
        _check(stop)
        yield buffer[:count]


def _check(stop: threading.Event | None) -> None:
    if stop is not None and stop.is_set():
        raise InterruptedError("the run has ended")


class Background:
    """Runs functions in a few threads and passes their results to the loop of another thread. ``wake`` wakes that loop."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._stop = threading.Event()
        self._threads: ThreadPoolExecutor | None = None
        self._ended: deque[tuple[Future[Any], Callable[[Future[Any]], None]]] = deque()

    def start(self, function: Callable[[threading.Event], Any], then: Callable[[Future[Any]], None]) -> None:
        """Run ``function`` in a thread, with an event that stops it; :meth:`finish` then calls ``then``."""
        if self._threads is None:
            # Imported only here, because a run of cache hits needs no thread.
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(_THREADS)

        def end(future: Future[Any]) -> None:
            self._ended.append((future, then))
            self._wake()

        self._threads.submit(function, self._stop).add_done_callback(end)

    def finish(self) -> None:
        """Call ``then`` of the functions that have ended."""
        while self._ended:
            future, then = self._ended.popleft()
            then(future)

    def close(self) -> None:
        """Stop running functions, and drop the others."""
        self._stop.set()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
