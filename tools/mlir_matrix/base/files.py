"""Lock files between processes, and write files atomically. When a process ends, the kernel releases its locks."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mlir_matrix.base.errors import DiskFullError, InfrastructureError, UsageError
from mlir_matrix.base.paths import INSTALLED

#: Errors of a full disk, of a quota, and of a limit on file sizes.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Pass it as ``cancelled`` to give up instead of waiting for a lock.
AT_ONCE = threading.Event()
AT_ONCE.set()
#: The age of a temporary file that no process writes any more.
_ABANDONED_S = 3600.0
#: The locks that each thread holds through :func:`locked`.
_own = threading.local()


class Cancelled(Exception):
    """Raised when the caller has cancelled the operation."""


def check(cancelled: threading.Event | None) -> None:
    """Raise :class:`Cancelled` once the event is set."""
    if cancelled is not None and cancelled.is_set():
        raise Cancelled


def _try_lock(descriptor: int) -> bool:
    """Lock an open file; return False if another process holds its lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def acquire(descriptor: int, cancelled: threading.Event | None) -> None:
    """Lock an open file. Wait for the lock until it is free or the event ``cancelled`` is set."""
    while not _try_lock(descriptor):
        (cancelled or threading.Event()).wait(0.1)
        check(cancelled)


@contextmanager
def locked(path: Path, cancelled: threading.Event | None = None) -> Iterator[None]:
    """Hold the lock ``path``, an empty file that is not removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        acquire(file.fileno(), cancelled)
        held: set[Path] = _own.__dict__.setdefault("held", set())
        held.add(path)
        try:
            yield
        finally:
            held.discard(path)


@contextmanager
def sole_user(folder: Path, taken: str) -> Iterator[None]:
    """Make a folder, and keep other processes from it. Raise UsageError with ``taken`` if one has it already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise unwritable(f"the folder {folder} cannot be made", error) from None
    try:
        if not _try_lock(descriptor):
            raise UsageError(taken)
        yield
    finally:
        os.close(descriptor)


def holds(path: Path) -> bool:
    """Return whether this thread holds the lock ``path``. To take it again would be a deadlock."""
    return path in _own.__dict__.get("held", ())


def is_held(path: Path) -> bool:
    """Return whether any process holds the lock of a file or a folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    write_file(path, text.encode())


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically, and remove what killed processes left of it long ago.

    Raise InfrastructureError; UsageError for a file of the installed program.
    """
    if path.is_relative_to(INSTALLED):
        raise UsageError(f"{path} belongs to the installed program; use --catalog DIR, or MATRIX_ROOT with a checkout")
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
    with suppress(OSError):
        _remove_unfinished(path)


def _remove_unfinished(path: Path) -> None:
    """Remove old temporary files for a file. Raise OSError.

    Their age counts, because a process in a container has another number outside of it.
    """
    start = f"{path.name}."
    for name in _unfinished(path.parent):
        scratch = path.with_name(name)
        if name.startswith(start) and time.time() - scratch.stat().st_mtime > _ABANDONED_S:
            scratch.unlink()


@cache
def _unfinished(folder: Path) -> Sequence[str]:
    """Return the temporary files that a folder has when this process first writes there: to list a large one takes long."""
    return [name for name in os.listdir(folder) if name.endswith(".new")]


def append_line(log: Path, line: bytes) -> None:
    """Append a line, which ends with a line feed, to a log. Before, remove one that a killed process has left incomplete.

    Raise InfrastructureError.
    """
    try:
        with open(log, "ab+", buffering=0) as file:
            _remove_torn_line(file)
            write_all(file.fileno(), line)
    except OSError as error:
        raise unwritable(f"the log {log} cannot be written", error) from None


def _remove_torn_line(file: io.FileIO) -> None:
    """Remove an incomplete line at the end of a file."""
    end = file.seek(0, os.SEEK_END)
    if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
        text = os.pread(file.fileno(), end, 0)
        file.truncate(text.rfind(b"\n") + 1)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes to an open file. Raise OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_output(path: Path, data: bytes) -> None:
    """Write a file of the command line atomically. Raise InfrastructureError.

    Devices, pipes and links are written in place: ``--junit /dev/stdout`` must not replace the device.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        try:
            path.write_bytes(data)
        except OSError as error:
            raise unwritable(f"{path} cannot be written", error) from None
    else:
        write_file(path, data)


def make_way(destination: Path) -> None:
    """Remove what is in the place of a folder and is none: a file, a pipe or a link to nothing. Raise OSError."""
    if os.path.lexists(destination) and not destination.is_dir():
        destination.unlink()


@contextmanager
def beside(destination: Path) -> Iterator[Path]:
    """Make a temporary folder, to be moved to ``destination``, where nothing but a folder stays. The caller holds the lock.

    Remove the temporary folders of killed processes.
    """
    import tempfile  # slow to import

    make_way(destination)
    prefix = f".new-{destination.name}-"
    for left in destination.parent.glob(f"{prefix}*"):
        # The caller holds the lock, so the process that made this folder has ended.
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=destination.parent))
    try:
        scratch.chmod(0o755)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def unwritable(what: str, error: OSError) -> InfrastructureError:
    """Return the error for a file that cannot be written or read."""
    # The first of two files is a temporary one, which is removed.
    file = error.filename2 or error.filename
    place = f" ({file})" if file else ""
    if error.errno in _FULL:
        return DiskFullError(f"{what}: the disk is full{place}; no incomplete file was kept")
    return InfrastructureError(f"{what}: {error.strerror or error}{place}")


def read_document(file: Path, schema: str, command: str) -> dict[str, Any]:
    """Read a JSON document that a command wrote. Raise UsageError unless it has the schema."""
    from mlir_matrix.base.names import printable

    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not JSON; make it with: {command}") from None
    written = found.get("schema") if isinstance(found, dict) else None
    if written != schema:
        known, _, version = schema.rpartition("/v")
        number = str(written).removeprefix(f"{known}/v")
        newer = number.isdecimal() and int(number[:9]) > int(version)
        fix = "upgrade mlir-matrix, or make it again with" if newer else "written by"
        raise UsageError(f"{file}: schema: {printable(str(written))}; expected {schema}; {fix}: {command}")
    return found  # type: ignore[no-any-return] # JSON
