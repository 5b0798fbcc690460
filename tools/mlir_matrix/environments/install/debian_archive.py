"""Read a Debian package: its control fields, and the members of its data archive in order.

A package is an ar file with the tar archives ``control.tar.*`` and ``data.tar.*`` in GNU's format. This module refuses devices,
sparse files and extended headers, which no package of Debian has.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.names import printable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from _typeshed import SupportsRead

#: The most bytes before the content of a member. A path and the target of a link have at most 4096 bytes each.
_MOST_HEADER = 1 << 16
_READ = 1 << 20
#: ``xz`` decompresses larger archives, using all cores for the blocks of 24 MiB that dpkg writes. One or two archives are half of
#: a release; without ``xz``, one core would still decompress them while all others are idle.
_LARGE = 1 << 20
#: A limit for the dictionary of decompressors. No package has a larger one.
_MEMORY = 512 << 20
#: Errors of decompressors for damaged data; EOFError for a truncated archive.
_DAMAGED = (lzma.LZMAError, zlib.error, zstd.ZstdError, ValueError, OSError, EOFError)

#: Kinds of members, as messages name them.
KINDS = {
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
    """An archive is damaged or hostile; the message names archive and member."""

    def __init__(self, archive: str, problem: str, member: str = "") -> None:
        where = f"{archive}: {printable(member, 200)}" if member else archive
        super().__init__(f"{where}: {problem}; the package was not installed")


class DebReader:
    """An archive in an open Debian package, as a file that tarfile reads and that can only move forward.

    Read the :meth:`content` of each member before the next one.
    """

    def __init__(self, chunks: Iterator[bytes], archive: str, part: str) -> None:
        self._chunks = chunks
        self._archive = archive
        self._rest = memoryview(b"")
        self._position = 0
        self._last = b""
        self._header_bytes = 0
        self._current = self._part = part

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Yield every member. Raise BadArchive."""
        try:
            for member in tarfile.TarFile(fileobj=cast("BinaryIO", self), encoding="utf-8", errors="surrogateescape"):
                self._current = member.name
                self._check(member)
                self._header_bytes = 0
                yield member
            if any(self._last):
                # tarfile treats an invalid record like the end, which must be a block of zeros.
                raise ValueError
        except (tarfile.TarError, ArithmeticError, LookupError, ValueError):
            raise self._bad("invalid tar record after it") from None
        self._current = self._part
        # Read to the end, where the checksums are.
        while self._next():
            pass

    def content(self, size: int) -> Iterator[memoryview]:
        """Yield the content of the last member in pieces."""
        while size > 0:
            if not self._rest:
                self._rest = memoryview(self._next())
            if not self._rest:
                raise self._bad("is truncated")
            piece = self._rest[:size]
            self._rest = self._rest[size:]
            self._position += len(piece)
            size -= len(piece)
            yield piece

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        for _ in self.content(position - self._position):
            pass

    def read(self, size: int) -> bytes:
        """Read a part of a header."""
        self._header_bytes += size
        if size < 0 or self._header_bytes > _MOST_HEADER:
            raise self._bad(f"the header of the next record has more than {_MOST_HEADER} bytes")
        self._last = b"".join(self.content(size))
        return self._last

    def _check(self, member: tarfile.TarInfo) -> None:
        kind = KINDS.get(member.type)
        if kind is None or member.pax_headers:
            refused = "a record with an extended header" if member.pax_headers else f"a record of type {member.type!r}"
            raise self._bad(f"is {_REFUSED.get(member.type, refused)}; expected a file, folder or link")
        if member.size < 0 or (kind != "file" and member.size):
            raise self._bad(f"is a {kind} with a size of {member.size} bytes")

    def _next(self) -> bytes:
        try:
            return next(self._chunks, b"")
        except EOFError:
            raise self._bad("is truncated") from None
        except _DAMAGED as error:
            raise self._bad(f"is damaged ({error})") from None

    def _bad(self, problem: str) -> BadArchive:
        return BadArchive(self._archive, problem, self._current)


def read_control(path: Path, *, archive: str) -> Message:
    """Return the control fields of a package. Raise BadArchive."""
    with open_deb(path, archive=archive, part="control.tar") as reader:
        for member in reader.members():
            if member.name.removeprefix("./") == "control" and member.size <= _LARGE:
                content = b"".join(reader.content(member.size))
                return HeaderParser().parsestr(content.decode("utf-8", "replace"))
    raise BadArchive(archive, f"has no file 'control' of at most {_LARGE} bytes", "control.tar")


@contextmanager
def open_deb(path: Path, *, archive: str, part: str = "data.tar") -> Iterator[DebReader]:
    """Open an archive in the package at ``path``, which is called ``archive`` in messages. Raise BadArchive."""
    with open(path, "rb") as file:
        suffix, offset, length = _find(file.fileno(), archive, part)
        packed = _FilePart(file.fileno(), offset, length)
        if suffix == ".xz":
            chunks = _xz_on_all_cores(packed) if length > _LARGE and shutil.which("xz") else _xz(packed)
        elif suffix in _OPEN:
            chunks = _chunks(_OPEN[suffix](packed))
        else:
            raise BadArchive(archive, f"unsupported compression '{part}{printable(suffix)}'")
        try:
            yield DebReader(chunks, archive, part)
        finally:
            chunks.close()


class _FilePart(io.RawIOBase):
    """A part of a file that can be read like a file."""

    def __init__(self, descriptor: int, offset: int, length: int) -> None:
        self.descriptor, self.offset, self._end = descriptor, offset, offset + length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = os.pread(self.descriptor, min(len(buffer), self._end - self.offset), self.offset)
        buffer[: len(data)] = data
        self.offset += len(data)
        return len(data)


#: By suffix of the data archive.
_OPEN: dict[str, Callable[[_FilePart], SupportsRead[bytes]]] = {
    ".gz": lambda part: gzip.GzipFile(fileobj=part),
    ".bz2": bz2.BZ2File,
    ".zst": zstd.ZstdFile,
    "": lambda part: part,
}


def _chunks(file: SupportsRead[bytes]) -> Generator[bytes, None, None]:
    while data := file.read(_READ):
        yield data


def _xz(part: _FilePart) -> Generator[bytes, None, None]:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    while not decompressor.eof:
        data = part.read(_READ) if decompressor.needs_input else b""
        if decompressor.needs_input and not data:
            raise EOFError
        if piece := decompressor.decompress(data or b"", 4 * _READ):
            yield piece


def _xz_on_all_cores(part: _FilePart) -> Generator[bytes, None, None]:
    os.lseek(part.descriptor, part.offset, os.SEEK_SET)
    command = ["xz", "--decompress", "--stdout", "--threads=0", "--single-stream", f"--memlimit-decompress={_MEMORY}"]
    with subprocess.Popen(command, stdin=part.descriptor, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield from _chunks(process.stdout)
            message = process.stderr.read().decode("utf-8", "replace").strip()
            if process.wait() != 0:
                raise EOFError if "Unexpected end" in message else ValueError(message.removeprefix("xz: (stdin): "))
        finally:
            process.kill()


def _find(descriptor: int, archive: str, part: str) -> tuple[str, int, int]:
    """Return suffix, offset and length of the archive ``part``."""
    end, offset = os.fstat(descriptor).st_size, 8
    if os.pread(descriptor, 8, 0) != b"!<arch>\n":
        raise BadArchive(archive, "not a Debian package")
    while offset < end:
        header = os.pread(descriptor, 60, offset)
        size = header[48:58].strip()
        if len(header) < 60 or header[58:] != b"`\n" or not size.isdigit() or offset + 60 + int(size) > end:
            raise BadArchive(archive, f"is damaged or truncated at byte {offset}")
        name = header[:16].rstrip().rstrip(b"/").decode("ascii", "replace")
        if name.startswith(part):
            return name.removeprefix(part), offset + 60, int(size)
        offset += 60 + int(size) + int(size) % 2
    raise BadArchive(archive, f"has no member {part}")
