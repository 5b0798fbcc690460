"""Read files that this program keeps, when something else may be in their place: a link, a folder, a pipe or a device."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

#: Flags to read such a file: a link is not followed, and a pipe does not block.
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotPlainError(OSError):
    """Raised for what is no plain file, which may have no end."""


def open_plain(path: str | Path) -> BufferedReader:
    """Open a file. Raise OSError; NotPlainError for what is no plain file."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise NotPlainError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(os.open(path, PLAIN), "rb")
