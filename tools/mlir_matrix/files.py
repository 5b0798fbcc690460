"""One process at a time, by locks of the kernel that end with whoever holds them, however it ends; and whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlir_matrix.errors import InfrastructureError

#: Limits on the size of files and quotas look the same to whoever waits for the file.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: For ``cancelled``: give up instead of waiting for a lock.
AT_ONCE = threading.Event()
AT_ONCE.set()
#: The locks that each thread holds by :func:`locked`.
_own = threading.local()


class Cancelled(Exception):
    """Whoever asked for it no longer wants it."""


def check(cancelled: threading.Event | None) -> None:
    """Raise :class:`Cancelled` once the event is set."""
    if cancelled is not None and cancelled.is_set():
        raise Cancelled


def acquire(descriptor: int, cancelled: threading.Event | None) -> None:
    """Lock an open file; somebody else's lock is waited for, but not longer than anybody wants it."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (cancelled or threading.Event()).wait(0.1)
            check(cancelled)
        else:
            return


@contextmanager
def locked(path: Path, cancelled: threading.Event | None = None) -> Iterator[None]:
    """Hold the lock ``path``, an empty file that stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        acquire(file.fileno(), cancelled)
        held: set[Path] = _own.__dict__.setdefault("held", set())
        held.add(path)
        try:
            yield
        finally:
            held.discard(path)


def holds(path: Path) -> bool:
    """Whether this thread holds the lock ``path``: waiting for itself would never end."""
    return path in _own.__dict__.get("held", ())


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock on a file or a folder right now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def write_text(path: Path, text: str) -> None:
    """Write a text file; see :func:`write_file`."""
    write_file(path, text.encode())


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that it is the old one or the new one, whatever happens meanwhile. Raises InfrastructureError."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(scratch, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise unwritable(f"{path} cannot be written", error) from None
    finally:
        with suppress(OSError):
            scratch.unlink()


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a person named, as :func:`write_file` does. Raises InfrastructureError.

    A device, a pipe and what a link leads to are written in place: ``--junit /dev/stdout`` must not replace that.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        try:
            path.write_bytes(data)
        except OSError as error:
            raise unwritable(f"{path} cannot be written", error) from None
    else:
        write_file(path, data)


@contextmanager
def beside(destination: Path) -> Iterator[Path]:
    """A new folder beside where something will be; what others left there is removed. The caller holds the lock of that."""
    import tempfile  # where something is made, not where locks are read

    prefix = f".new-{destination.name}-"
    for left in destination.parent.glob(f"{prefix}*"):
        # We hold the lock, so whoever made it is gone.
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=destination.parent))
    try:
        scratch.chmod(0o755)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def unwritable(what: str, error: OSError) -> InfrastructureError:
    """The error for a file that cannot be written or read: a full disk is called by its name."""
    place = f" ({error.filename})" if error.filename else ""
    if error.errno in _FULL:
        return InfrastructureError(f"{what}: the disk is full{place}; nothing half done was kept")
    return InfrastructureError(f"{what}: {error.strerror or error}{place}")
