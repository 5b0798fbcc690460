"""The action cache: blobs by their content, results by the key of the action.

Both are files that are written atomically. So a killed run loses no finished action, and runs can share a cache. Each read of
a blob checks its digest.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from mlir_matrix.base.digest import check_line, digest_bytes
from mlir_matrix.base.files import unwritable, write_all
from mlir_matrix.base.plain_files import PLAIN
from mlir_matrix.execute.large_files import (
    LARGE,
    DifferentBytesError,
    Identity,
    copy_file,
    hash_file,
    identity,
)
from mlir_matrix.execute.use_log import use_log

#: Increase it when the meaning of entries changes. Older entries are then not found.
_FORMAT = 2
_CHUNK = 1 << 16
#: Bytes of small blobs to keep in memory.
_RECENT = 64 << 20
#: Errors of reading what is no plain file, or a file that this user or this disk cannot read.
_UNREADABLE = frozenset({errno.EACCES, errno.EAGAIN, errno.EIO, errno.EISDIR, errno.ELOOP, errno.ENXIO})
_serial = count()


class LostBlob(FileNotFoundError):
    """A blob of a result is missing, or had another digest and was removed."""

    def __init__(self, digest: str, why: str) -> None:
        super().__init__(f"the cached file {digest[:12]} {why}")
        self.digest = digest


class BlockedError(OSError):
    """A file of the cache cannot be put in its place, so making it again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an action: its outcome (``{"outcome": "ok", …}`` or a failure) and the digests of its outputs."""

    outcome: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=dict)
    #: Seconds and memory of the execution. No digest covers them.
    usage: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, object] = field(default_factory=dict)
    #: The execution's limit in MiB: with more memory, a failure may become another outcome.
    memory_mb: int = 0

    @property
    def ok(self) -> bool:
        """Return whether the outputs exist."""
        return self.outcome["outcome"] == "ok"


class ActionCache:
    """Blobs and results under one folder."""

    def __init__(self, folder: Path) -> None:
        self._blobs = str(folder / "blobs")
        #: Results: the file of a key is in a subfolder named by the key's first two digits.
        self.results = str(folder / f"results-v{_FORMAT}")
        #: Contents of recent blobs, the oldest first.
        self._recent: dict[str, bytes] = {}
        self._recent_bytes = 0
        #: Identities of large blobs when this process hashed them.
        self._checked: dict[str, Identity] = {}
        #: Digests and identities of large files for take_file(), by path.
        self._hashed: dict[str, tuple[str, Identity]] = {}
        # A process number alone is not unique: it repeats, in containers each time.
        self._new = f"{self.results}/new-{os.getpid()}-{time.time_ns()}"
        self._size = str(folder / "size")
        self._added = 0
        self._uses = use_log(str(folder / "uses"))

    def prepare(self) -> None:
        """Create the folders, so that each write is one call."""
        try:
            for base in (self._blobs, self.results):
                if not os.path.isdir(os.path.join(base, "ff")):
                    for shard in range(256):
                        os.makedirs(os.path.join(base, f"{shard:02x}"), exist_ok=True)
        except OSError as error:
            raise unwritable("the action cache cannot be written", error) from error
        self._uses.open()

    def record_growth(self) -> None:
        """Add the bytes written by this object to the recorded size of the cache, if there is one."""
        added, self._added = self._added, 0
        if added:
            with contextlib.suppress(OSError), open(os.open(self._size, os.O_WRONLY | os.O_APPEND), "ab") as file:
                file.write(b"%d\n" % added)

    def blob_path(self, digest: str) -> str:
        """Return the path of a blob, whether or not it exists."""
        return f"{self._blobs}/{digest[:2]}/{digest}"

    def has_blob(self, digest: str) -> bool:
        return os.path.isfile(self.blob_path(digest))

    def read_blob(self, digest: str) -> bytes:
        """Return the bytes of a blob. Raise LostBlob: its action must then run again. Raise OSError if the machine fails."""
        data = self._recent.get(digest)
        if data is None:
            path = self.blob_path(digest)
            try:
                data = read_bytes(path, PLAIN)
            except FileNotFoundError:
                raise LostBlob(digest, "is missing") from None
            except OSError as error:
                raise self._unreadable(digest, error) from None
            if digest_bytes(data) != digest:
                raise self._removed(digest, "was damaged")
            self._remember(digest, data)
        return data

    def _unreadable(self, digest: str, error: OSError) -> OSError:
        """Remove a blob that cannot be read, and return LostBlob. Return an error that may pass as it is."""
        if error.errno not in _UNREADABLE:
            # Too many open files, for example: the blob may be good.
            return error
        return self._removed(digest, f"could not be read ({error.strerror})")

    def _removed(self, digest: str, why: str) -> LostBlob:
        """Remove a blob, whatever it is, and return LostBlob."""
        _clear(self.blob_path(digest))
        return LostBlob(digest, f"{why} and has been removed")

    def is_large(self, digest: str) -> bool:
        """Return whether to copy a blob in a thread."""
        try:
            return digest not in self._recent and os.stat(self.blob_path(digest)).st_size > LARGE
        except OSError:
            return False

    def copy_blob(self, digest: str, path: str, stop: threading.Event | None = None) -> None:
        """Copy a blob to a new file, in pieces. Check it unless this run has. Raise LostBlob. Threads may call this."""
        source = self.blob_path(digest)
        try:
            status = os.lstat(source)
        except FileNotFoundError:
            raise LostBlob(digest, "is missing") from None
        if not stat.S_ISREG(status.st_mode):
            raise self._removed(digest, "is no plain file")
        found = identity(status)
        try:
            copy_file(source, path, None if self._checked.get(digest) == found else digest, stop)
        except DifferentBytesError:
            self._remove_damaged(digest, found)
            # Another thread removed the damaged blob, and its action has run again since then.
            self.copy_blob(digest, path, stop)
        except PermissionError as error:
            if error.filename != source:
                raise
            raise self._unreadable(digest, error) from None
        else:
            self._checked[digest] = found

    def _remove_damaged(self, digest: str, found: Identity) -> None:
        """Remove a large blob and raise LostBlob, unless it was replaced since it was ``found``."""
        path = self.blob_path(digest)
        with contextlib.suppress(FileNotFoundError):
            if identity(os.stat(path)) != found:
                return
        raise self._removed(digest, "was damaged")

    def add_copy(self, path: str) -> str:
        """Add a copy of a file and return its digest."""
        copy = f"{self._new}-{next(_serial)}"
        copy_file(path, copy, None)
        return self.take_file(copy)

    def hash_large(self, path: str, stop: threading.Event | None = None) -> None:
        """Hash a large file for :meth:`take_file`. Threads may call this.

        No other process can write to the file: its action has ended, and it has no other name.
        """
        _own(path, os.lstat(path))
        os.chmod(path, 0o644)
        self._hashed[path] = hash_file(path, stop)

    def take_file(self, path: str) -> str:
        """Move a file into the cache and return its digest."""
        found = os.lstat(path)
        self._added += found.st_size
        if found.st_size > LARGE:
            return self._take_large(path)
        _own(path, found)
        data = read_bytes(path, PLAIN)
        digest = digest_bytes(data)
        self._remember(digest, data)
        _put(path, self.blob_path(digest))
        return digest

    def _take_large(self, path: str) -> str:
        hashed = self._hashed.pop(path, None)
        if hashed is None or hashed[1] != identity(os.lstat(path)):
            self.hash_large(path)
            hashed = self._hashed.pop(path)
        digest, self._checked[hashed[0]] = hashed
        _put(path, self.blob_path(digest))
        return digest

    def _remember(self, digest: str, data: bytes) -> None:
        """Keep a small blob in memory, because most blobs are read soon after they are made."""
        if len(data) > LARGE or digest in self._recent:
            return
        self._recent[digest] = data
        self._recent_bytes += len(data)
        while self._recent_bytes > _RECENT:
            oldest = next(iter(self._recent))
            self._recent_bytes -= len(self._recent.pop(oldest))

    def _result_path(self, key: str) -> str:
        return f"{self.results}/{key[:2]}/{key}"

    def find(self, key: str) -> Result | None:
        """Return the result of a key; None unless it is intact and all its outputs exist. No process evicts them then."""
        self._uses.note(key)
        try:
            entry, _, check = read_bytes(self._result_path(key), PLAIN).rpartition(b"\n")
            if check != check_line(key, entry):
                return None
            result = Result(**json.loads(entry))
        except (OSError, ValueError, TypeError):
            return None
        return result if all(self.has_blob(digest) for digest in result.outputs.values()) else None

    def files(self, key: str, result: Result) -> Iterator[str]:
        """Yield the files that :meth:`find` needs for this result."""
        yield self._result_path(key)
        yield from map(self.blob_path, result.outputs.values())

    def keep(self, key: str, result: Result) -> None:
        entry = {
            "outcome": dict(result.outcome),
            "outputs": dict(result.outputs),
            "usage": dict(result.usage),
            "metrics": dict(result.metrics),
            "memory_mb": result.memory_mb,
        }
        data = json.dumps(entry, separators=(",", ":")).encode()
        self._added += len(data)
        self._write(self._result_path(key), data + b"\n" + check_line(key, data))

    def _write(self, path: str, data: bytes) -> None:
        # All in one folder: creating files in many folders is several times slower.
        temporary = f"{self._new}-{next(_serial)}"
        try:
            write_bytes(temporary, data)
            _put(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _put(new: str, path: str) -> None:
    """Move a new file into its place. Remove a folder that is there. Raise BlockedError."""
    try:
        os.replace(new, path)
    except IsADirectoryError:
        _clear(path)
        _put(new, path)
    except PermissionError as error:
        raise BlockedError(
            f"{path} cannot be written: {error.strerror}; make its folder writable for this user, "
            "or name another cache with --cache-dir"
        ) from None


def _clear(path: str) -> None:
    """Remove what is in the place of a file: a file, a link, a pipe or an empty folder. Raise BlockedError."""
    try:
        try:
            os.unlink(path)
        except IsADirectoryError:
            os.rmdir(path)
    except FileNotFoundError:
        # Another process has removed it.
        return
    except OSError as error:
        raise BlockedError(
            f"{path} is in the way of a cached file and cannot be removed: {error.strerror}; "
            "remove it, or name another cache with --cache-dir"
        ) from None


def read_bytes(path: str, flags: int = os.O_RDONLY | os.O_CLOEXEC) -> bytes:
    """Return the content of a file, in a third of the time of ``open``. ``flags``: ``PLAIN`` for a file that is kept."""
    descriptor = os.open(path, flags)
    try:
        data = os.read(descriptor, _CHUNK)
        if len(data) < _CHUNK:
            return data
        parts = [data]
        while part := os.read(descriptor, LARGE):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _own(path: str, found: os.stat_result) -> None:
    """Become the owner of a file that an action in a container wrote as another user."""
    if found.st_uid != os.geteuid():
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)


def write_bytes(path: str, data: bytes) -> None:
    """Write a new file. Raise FileExistsError if there is a file or link of this name."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
