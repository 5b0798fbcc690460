"""Empty the folder of a container, in which its actions follow each other, and see that nothing of the last one is left.

A container cannot get another folder: its mounts are made when it starts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence

from mlir_matrix.actions.contract import INPUT_FOLDER, OUTPUT_FOLDER
from mlir_matrix.execute.folders import empty_folder, extended_attributes

#: ``_IOR('f', 1, long)``: immutable, append-only, encrypted, and more. ``_IOR('X', 31, struct fsxattr)``: also the project.
_FS_IOC_GETFLAGS, _FS_IOC_FSGETXATTR = 0x80086601, 0x801C581F
#: Metadata of a folder without size and times.
Attributes = tuple[object, ...]


def attributes_of(folder: str) -> Sequence[Attributes]:
    """Return the attributes of an action's folder, and of those for inputs and outputs in it. Raise OSError."""
    return [_attributes(path) for path in (folder, f"{folder}/{INPUT_FOLDER}", f"{folder}/{OUTPUT_FOLDER}")]


def empty(folder: str, new: Sequence[Attributes]) -> bool:
    """Remove all files from a folder. Return False if its attributes are not those of a new one, or it has other folders."""
    try:
        empty_folder(folder)
        return attributes_of(folder) == new
    except OSError:
        return False


def _attributes(folder: str) -> Attributes:
    """Return mode, owner, ACLs and other extended attributes, flags and project of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        found = os.fstat(descriptor)
        flags, more = _ioctl(descriptor, _FS_IOC_GETFLAGS, 8), _ioctl(descriptor, _FS_IOC_FSGETXATTR, 28)
        # Bytes 8 to 12 are the number of extents, which depends on the content.
        return found.st_mode, found.st_uid, found.st_gid, extended_attributes(descriptor), flags, more[:8], more[12:]
    finally:
        os.close(descriptor)


def _ioctl(descriptor: int, request: int, size: int) -> bytes:
    """Return the answer of the file system, empty if it does not support the request."""
    try:
        return fcntl.ioctl(descriptor, request, bytes(size))
    except OSError:
        return b""
