"""How much a wheel takes, without fetching it: its archive's list of members is read where it is."""

from __future__ import annotations

import io
import zipfile

from mlir_matrix.environments.fetch.http import TROUBLE, Refused, Transport
from mlir_matrix.errors import InfrastructureError

_BUFFER = 1 << 16


class _RemoteFile(io.RawIOBase):
    """A file at an address, read in parts."""

    def __init__(self, address: str, transport: Transport) -> None:
        self._address = address
        self._transport = transport
        self._at = 0
        first = transport.open(address, 0)
        first.close()
        if first.size is None:
            raise InfrastructureError("the index does not say how large its files are")
        self.size = first.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self.size:
            return 0
        stream = self._transport.open(self._address, self._at)
        try:
            if stream.start != self._at:
                raise InfrastructureError("the index does not give parts of files")
            data = stream.read(len(buffer))
        finally:
            stream.close()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def wheel_sizes(address: str, transport: Transport) -> tuple[int, int]:
    """Bytes of the wheel at an address, and of what is in it. Raises InfrastructureError."""
    try:
        raw = _RemoteFile(address, transport)
        with zipfile.ZipFile(io.BufferedReader(raw, _BUFFER)) as archive:
            return raw.size, sum(member.file_size for member in archive.infolist())
    except (Refused, zipfile.BadZipFile, *TROUBLE) as error:
        raise InfrastructureError(f"the size of a wheel cannot be found out: {error}") from None
