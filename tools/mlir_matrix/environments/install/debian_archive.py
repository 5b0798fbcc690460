"""Read a Debian package: the records of its data archive, one after the other, without writing anything.

The format is what dpkg itself takes: an ar file whose member ``data.tar.*`` is a tar archive in GNU's format. What
else tar knows (devices, sparse files, extended headers that may be of any size) no package has, and it is refused.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlir_matrix.environments.install.decompress import DAMAGED, UnknownCompression, decompressed
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.names import printable

_BLOCK = 512
_LONGEST_NAME = 1 << 16

Kind = Literal["file", "folder", "link", "hard link"]
_KINDS: dict[bytes, Kind] = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link",
}
_REFUSED = {
    tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device", tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}  # fmt: skip


class BadArchive(InfrastructureError):
    """An archive that is damaged, or that would write where it may not; the message names archive and member."""

    def __init__(self, archive: str, problem: str, member: str = "") -> None:
        where = f"{archive}: {printable(member, 200)}" if member else archive
        super().__init__(f"{where}: {problem}; nothing of it was kept")


@dataclass(frozen=True, kw_only=True)
class Record:
    """A member of the data archive; ``name`` and ``target`` as they are written there."""

    name: str
    kind: Kind
    target: str
    size: int
    executable: bool


class DebReader:
    """The data archive of an open Debian package, as records; of each, :meth:`content` must be taken before the next."""

    def __init__(self, chunks: Iterator[bytes], archive: str) -> None:
        self._chunks = chunks
        self._archive = archive
        self._rest = memoryview(b"")
        self._current = "data.tar"

    def records(self) -> Iterator[Record]:
        """Every member. Raises BadArchive."""
        long_name = long_target = None
        while (header := self._take(_BLOCK)).count(0) != _BLOCK:
            try:
                info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            except tarfile.HeaderError:
                raise self._bad("what comes after it is no tar record") from None
            if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
                text = self._long(info.size)
                if info.type == tarfile.GNUTYPE_LONGNAME:
                    long_name = text
                else:
                    long_target = text
                continue
            yield self._record(info, long_name, long_target)
            long_name = long_target = None
        self._finish()

    def content(self, size: int) -> Iterator[memoryview]:
        """The content of the record given last."""
        padding = -size % _BLOCK
        while size:
            piece = self._piece(size)
            size -= len(piece)
            yield piece
        if padding:
            self._take(padding)

    def _record(self, info: tarfile.TarInfo, name: str | None, target: str | None) -> Record:
        self._current = info.name if name is None else name
        kind = _KINDS.get(info.type)
        if kind is None:
            what = _REFUSED.get(info.type, f"a record of type {info.type!r}")
            raise self._bad(f"is {what}; a package may have files, folders and links")
        if info.size < 0 or (kind != "file" and info.size):
            raise self._bad(f"is a {kind} of {info.size} bytes")
        return Record(
            name=self._current,
            kind=kind,
            target=info.linkname if target is None else target,
            size=info.size,
            executable=bool(info.mode & 0o111),
        )

    def _long(self, size: int) -> str:
        if not 0 < size <= _LONGEST_NAME:
            raise self._bad(f"what comes after it has a name of {size} bytes")
        data = b"".join(self.content(size))
        return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def _take(self, size: int) -> bytes:
        data = bytes(self._piece(size))
        while len(data) < size:
            data += self._piece(size - len(data))
        return data

    def _piece(self, most: int) -> memoryview:
        while not self._rest:
            self._rest = memoryview(self._next())
        piece, self._rest = self._rest[:most], self._rest[most:]
        return piece

    def _next(self) -> bytes:
        try:
            return next(self._chunks)
        except (StopIteration, EOFError):
            raise self._bad("ends in the middle") from None
        except DAMAGED as error:
            raise self._bad(f"is damaged ({error})") from None

    def _finish(self) -> None:
        # The checksums come last: what was not read to the end was not checked.
        self._current = "data.tar"
        try:
            for _ in self._chunks:
                pass
        except EOFError:
            raise self._bad("ends in the middle") from None
        except DAMAGED as error:
            raise self._bad(f"is damaged ({error})") from None

    def _bad(self, problem: str) -> BadArchive:
        return BadArchive(self._archive, problem, self._current)


@contextmanager
def open_deb(path: Path, *, archive: str, helpers: Executor | None = None) -> Iterator[DebReader]:
    """The package at ``path``, called ``archive`` in messages. ``helpers`` decompress what can be taken apart."""
    with open(path, "rb") as file:
        suffix, offset, length = _find_data(file.fileno(), archive)
        try:
            chunks = decompressed(file.fileno(), offset, length, suffix, helpers)
        except UnknownCompression as error:
            raise BadArchive(archive, str(error)) from None
        try:
            yield DebReader(chunks, archive)
        finally:
            chunks.close()


def _find_data(descriptor: int, archive: str) -> tuple[str, int, int]:
    """Ending of the name, place and length of the data archive."""
    end, offset = os.fstat(descriptor).st_size, 8
    if os.pread(descriptor, 8, 0) != b"!<arch>\n":
        raise BadArchive(archive, "is no Debian package")
    while offset < end:
        header = os.pread(descriptor, 60, offset)
        size = header[48:58].strip()
        if len(header) < 60 or header[58:] != b"`\n" or not size.isdigit() or offset + 60 + int(size) > end:
            raise BadArchive(archive, f"is damaged or cut off at byte {offset}")
        name = header[:16].rstrip().rstrip(b"/").decode("ascii", "replace")
        if name.startswith("data.tar"):
            return name.removeprefix("data.tar"), offset + 60, int(size)
        offset += 60 + int(size) + int(size) % 2
    raise BadArchive(archive, "has no member data.tar")
