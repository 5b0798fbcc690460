"""Small files that are no longer needed, written anew instead of removed and made.

To make a file costs more than to fill it, and where many were just removed, some file systems (ext4 without a journal)
search for a tenth of a millisecond and more for a place for the next one. A run makes and drops several files an action.
A file is used again only if it has the attributes of a new one: to look takes 0.01 ms.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat

from mlir_matrix.execute.action_cache import write_bytes
from mlir_matrix.execute.large_files import write_all

#: Bytes of a file that is worth keeping, and how many are kept: what a run writes between two actions' ends is far less.
_SMALL = 1 << 16
_MOST = 1000
#: ``_IOR('f', 1, long)``: immutable, append-only, encrypted, and more. ``_IOR('X', 31, struct fsxattr)``: the project, too.
_FS_IOC_GETFLAGS, _FS_IOC_FSGETXATTR = 0x80086601, 0x801C581F
#: What a file or a folder is apart from its content and its times.
Attributes = tuple[object, ...]


class SpareFiles:
    """A folder of spare files. Their content means nothing."""

    def __init__(self, folder: str) -> None:
        os.mkdir(folder, 0o700)
        self._folder = folder
        self._free: list[str] = []
        self._serial = 0
        self._new: Attributes = ()

    def discard(self, path: str) -> None:
        """Remove a file, which may be anything but a folder; keep it where it is an ordinary one with no other name."""
        found = os.lstat(path)
        plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if plain and found.st_size <= _SMALL and len(self._free) < _MOST and _is(path, self._new):
            spare = self._name()
            os.rename(path, spare)
            self._free.append(spare)
        else:
            os.unlink(path)

    def write(self, path: str, data: bytes) -> None:
        """Make a file, in place of one that may be there. It appears complete or not at all."""
        spare = self._free.pop() if self._free else ""
        try:
            if spare:
                _overwrite(spare, data)
            else:
                spare = self._name()
                # All in one folder: to make files in one of many costs file systems several times as much.
                write_bytes(spare, data)
                self._new = self._new or attributes(spare)
            os.rename(spare, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(spare)
            raise

    def _name(self) -> str:
        self._serial += 1
        return f"{self._folder}/{self._serial}"


def attributes(path: str, kind: int = 0) -> Attributes:
    """Mode, owner, ACLs and other extended attributes, flags and project of a file, or of a folder (``O_DIRECTORY``)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind)
    try:
        found = os.fstat(descriptor)
        flags, more = _ioctl(descriptor, _FS_IOC_GETFLAGS, 8), _ioctl(descriptor, _FS_IOC_FSGETXATTR, 28)
        # Bytes 8 to 12 are the number of extents, which follows the content.
        return found.st_mode, found.st_uid, found.st_gid, _extended(descriptor), flags, more[:8], more[12:]
    finally:
        os.close(descriptor)


def _extended(descriptor: int) -> list[tuple[str, bytes]]:
    """Extended attributes, ACLs among them; none on a file system without."""
    try:
        return [(name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor)]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise


def has_attributes(path: str) -> bool:
    """Return whether a file that is no link has extended attributes other than those of a security module."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return any(not name.startswith("security.") for name, _ in _extended(descriptor))
    finally:
        os.close(descriptor)


def _ioctl(descriptor: int, request: int, size: int) -> bytes:
    """What the file system answers; nothing if it does not know the request."""
    try:
        return fcntl.ioctl(descriptor, request, bytes(size))
    except OSError:
        return b""


def _is(path: str, new: Attributes) -> bool:
    try:
        return attributes(path) == new
    except OSError:
        return False


def _overwrite(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # Cut off at the end, where that changes nothing on the disk; not before, when it would all be freed and taken again.
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
