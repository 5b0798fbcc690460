"""What a container says, as its daemon sends it: both its outputs in one stream, in frames."""

from __future__ import annotations

import struct

#: Number of the output, three bytes of nothing, length of what follows.
_HEADER = struct.Struct(">BxxxL")
_OUTPUT, _ERRORS = 1, 2


class Demultiplexer:
    """Takes the stream apart, however it is cut into pieces."""

    def __init__(self) -> None:
        self._buffer = b""
        self._which = 0
        #: Bytes that are still to come of the present frame.
        self._left = 0

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """What these bytes bring of the standard output, and of the error output."""
        found = {_OUTPUT: b"", _ERRORS: b""}
        self._buffer += chunk
        while self._buffer:
            if self._left == 0:
                if len(self._buffer) < _HEADER.size:
                    break
                self._which, self._left = _HEADER.unpack_from(self._buffer)
                self._buffer = self._buffer[_HEADER.size :]
            part = self._buffer[: self._left]
            self._buffer = self._buffer[len(part) :]
            self._left -= len(part)
            found[self._which] = found.get(self._which, b"") + part
        return found[_OUTPUT], found[_ERRORS]
