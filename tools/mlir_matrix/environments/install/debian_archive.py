"""Read a Debian package: the records of its data archive, one after the other, and its control fields.

The format is that of dpkg: an ar file whose members ``control.tar.*`` and ``data.tar.*`` are tar archives in GNU's format.
Devices, sparse files and extended headers, which may be of any size, are in no package and are refused.
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
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Literal, NoReturn, Protocol

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.names import printable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_BLOCK = 512
_LONGEST_NAME = 1 << 16
_READ = 1 << 20
#: Larger archives are decompressed by ``xz``, which uses all cores for the blocks of 24 MiB that dpkg writes. Half of a
#: release is one or two archives, so that otherwise one core would work after all others are idle.
_LARGE = 1 << 20
#: No package has a larger dictionary.
_MEMORY = 512 << 20
#: Errors of decompressors for damaged data; EOFError for a truncated archive.
_DAMAGED = (lzma.LZMAError, zlib.error, zstd.ZstdError, ValueError, OSError, EOFError)

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
    """An archive is damaged or hostile; the message names archive and member."""

    def __init__(self, archive: str, problem: str, member: str = "") -> None:
        where = f"{archive}: {printable(member, 200)}" if member else archive
        super().__init__(f"{where}: {problem}; the package was not installed")


@dataclass(frozen=True, kw_only=True)
class Record:
    """A member of the data archive; ``name`` and ``target`` as in the archive."""

    name: str
    kind: Kind
    target: str
    size: int
    executable: bool


class DebReader:
    """An archive in an open Debian package; read the :meth:`content` of each record before the next one."""

    def __init__(self, chunks: Iterator[bytes], archive: str, part: str) -> None:
        self._chunks = chunks
        self._archive = archive
        self._rest = memoryview(b"")
        self._current = self._part = part

    def records(self) -> Iterator[Record]:
        """Yield every member. Raise BadArchive."""
        long_name = long_target = None
        while (header := self._take(_BLOCK)).count(0) != _BLOCK:
            try:
                info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            except tarfile.HeaderError:
                raise self._bad("invalid tar record after it") from None
            if info.type == tarfile.GNUTYPE_LONGNAME:
                long_name = self._long(info.size)
            elif info.type == tarfile.GNUTYPE_LONGLINK:
                long_target = self._long(info.size)
            else:
                yield self._record(info, long_name, long_target)
                long_name = long_target = None
        self._current = self._part
        # Checksums come last: read to the end.
        while self._next():
            pass

    def content(self, size: int) -> Iterator[memoryview]:
        """Yield the content of the last record in pieces."""
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
            raise self._bad(f"is {what}; expected a file, folder or link")
        if info.size < 0 or (kind != "file" and info.size):
            raise self._bad(f"is a {kind} with a size of {info.size} bytes")
        return Record(
            name=self._current,
            kind=kind,
            target=info.linkname if target is None else target,
            size=info.size,
            executable=bool(info.mode & 0o111),
        )

    def _long(self, size: int) -> str:
        if not 0 < size <= _LONGEST_NAME:
            raise self._bad(f"the name of the next record has {size} bytes, expected 1 to {_LONGEST_NAME}")
        data = b"".join(self.content(size))
        return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def _take(self, size: int) -> bytes:
        data = bytes(self._piece(size))
        while len(data) < size:
            data += self._piece(size - len(data))
        return data

    def _piece(self, most: int) -> memoryview:
        while not self._rest:
            self._rest = memoryview(self._next() or self._truncated())
        piece, self._rest = self._rest[:most], self._rest[most:]
        return piece

    def _next(self) -> bytes | None:
        try:
            return next(self._chunks, None)
        except EOFError:
            self._truncated()
        except _DAMAGED as error:
            raise self._bad(f"is damaged ({error})") from None

    def _truncated(self) -> NoReturn:
        raise self._bad("is truncated") from None

    def _bad(self, problem: str) -> BadArchive:
        return BadArchive(self._archive, problem, self._current)


def read_control(path: Path, *, archive: str) -> Message:
    """Return the control fields of a package. Raise BadArchive."""
    with open_deb(path, archive=archive, part="control.tar") as reader:
        for record in reader.records():
            content = reader.content(record.size)
            if record.name.removeprefix("./") == "control" and record.size <= _LARGE:
                return HeaderParser().parsestr(b"".join(content).decode("utf-8", "replace"))
            for _ in content:
                pass
    raise BadArchive(archive, f"has no file 'control' of at most {_LARGE} bytes", "control.tar")


@contextmanager
def open_deb(path: Path, *, archive: str, part: str = "data.tar") -> Iterator[DebReader]:
    """Open an archive in the package at ``path``, which is called ``archive`` in messages. Raise BadArchive."""
    with open(path, "rb") as file:
        suffix, offset, length = _find(file.fileno(), archive, part)
        packed = _Part(file.fileno(), offset, length)
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


class _Part(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, descriptor: int, offset: int, length: int) -> None:
        self.descriptor, self.offset, self._end = descriptor, offset, offset + length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = os.pread(self.descriptor, min(len(buffer), self._end - self.offset), self.offset)
        buffer[: len(data)] = data
        self.offset += len(data)
        return len(data)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


#: By suffix of the data archive.
_OPEN: dict[str, Callable[[_Part], _Readable]] = {
    ".gz": lambda part: gzip.GzipFile(fileobj=part),
    ".bz2": bz2.BZ2File,
    ".zst": zstd.ZstdFile,
    "": lambda part: part,
}


def _chunks(file: _Readable) -> Generator[bytes, None, None]:
    while data := file.read(_READ):
        yield data


def _xz(part: _Part) -> Generator[bytes, None, None]:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    while not decompressor.eof:
        data = part.read(_READ) if decompressor.needs_input else b""
        if decompressor.needs_input and not data:
            raise EOFError
        if piece := decompressor.decompress(data or b"", 4 * _READ):
            yield piece


def _xz_on_all_cores(part: _Part) -> Generator[bytes, None, None]:
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
