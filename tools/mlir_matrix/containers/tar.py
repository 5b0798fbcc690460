"""Write tar archives whose bytes depend on the content of files alone: not on order, times, owners, umask or machine.

Files are read while the archive is written; its size is known before.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from mlir_matrix.base.digest import digest_pieces
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import unwritable
from mlir_matrix.environments.install.unpack import leads_out

#: Time of all files: the second day of 1980, the first that zip files can hold in any time zone.
MTIME = 315_619_200
_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 20
#: Bytecode, which depends on earlier runs.
_LEFT_OUT = "__pycache__"
#: Functions that change the content of files, by path; None omits a file.
Edits = Mapping[str, Callable[[bytes], bytes] | None]


@dataclass(frozen=True, kw_only=True)
class Member:
    """A folder, file or symbolic link of an archive. A file has ``content``, or that of ``source``."""

    path: str
    mode: int = 0o755
    folder: bool = False
    target: str = ""
    source: Path | None = None
    content: bytes = b""
    #: Bytes of a file.
    size: int = 0
    #: User and group.
    owner: int = 0

    @cached_property
    def header(self) -> bytes:
        """Return the blocks before the content."""
        info = tarfile.TarInfo(self.path)
        info.type = tarfile.DIRTYPE if self.folder else tarfile.SYMTYPE if self.target else tarfile.REGTYPE
        info.linkname, info.mode, info.size, info.mtime = self.target, self.mode, self.size, MTIME
        info.uid = info.gid = self.owner
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")

    @property
    def blocks(self) -> int:
        """Return the bytes that it takes in an archive."""
        return len(self.header) + -(-self.size // _BLOCK) * _BLOCK

    def pieces(self) -> Iterator[bytes]:
        """Yield header and content. Raise InfrastructureError if the file is unreadable or its size has changed."""
        yield self.header
        if self.source is None:
            yield self.content
        else:
            yield from _content(self.source, self.size)
        yield b"\0" * (-self.size % _BLOCK)


def text(path: str, content: str) -> Member:
    """Return a file with this text."""
    data = content.encode()
    return Member(path=path, mode=0o644, content=data, size=len(data))


def members(root: Path, at: str, edits: Edits = MappingProxyType({})) -> list[Member]:
    """Return a folder and its content as members of the folder ``at``, without bytecode.

    Of modes only the executable bit is kept; hard links become files. Raise InfrastructureError for links that lead out of the
    folder, and for special files.
    """
    try:
        found = sorted(_members(root), key=lambda member: os.fsencode(member.path))
    except OSError as error:
        raise unwritable(f"{root} cannot be read", error) from None
    targets = {member.path: member.target for member in found if member.target}
    for path in targets:
        if leads_out(path, targets):
            raise InfrastructureError(f"{root}/{path} is a link that leads out of the folder; images cannot contain it")
    listed = [Member(path=at, folder=True)]
    for member in found:
        edit = edits.get(member.path)
        kept = replace(member, path=f"{at}/{member.path}")
        if edit and member.source:
            content = edit(b"".join(_content(member.source, member.size)))
            kept = replace(kept, source=None, content=content, size=len(content))
        if edit or member.path not in edits:
            listed.append(kept)
    return listed


def size_of(listed: Iterable[Member]) -> int:
    """Return the bytes of the archive of some members."""
    return sum(member.blocks for member in listed) + 2 * _BLOCK


def pack(listed: Iterable[Member]) -> Iterator[bytes]:
    """Yield the archive of some members, in pieces."""
    for member in listed:
        yield from member.pieces()
    yield b"\0" * (2 * _BLOCK)


def in_pieces(parts: Iterable[bytes], size: int = _PIECE) -> Iterator[bytes]:
    """Join small pieces: each costs its sender a system call or two."""
    waiting: list[bytes] = []
    length = 0
    for part in parts:
        waiting.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(waiting)
            waiting, length = [], 0
    if length:
        yield b"".join(waiting)


def _members(root: Path) -> Iterator[Member]:
    for folder, folders, files in os.walk(root, onerror=_fail):
        if _LEFT_OUT in folders:
            folders.remove(_LEFT_OUT)
        for name in (*folders, *files):
            place = os.path.join(folder, name)
            path = os.path.relpath(place, root)
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                yield Member(path=path, mode=0o777, target=os.readlink(place))
            elif stat.S_ISDIR(status.st_mode):
                yield Member(path=path, folder=True)
            elif stat.S_ISREG(status.st_mode):
                mode = 0o755 if status.st_mode & 0o111 else 0o644
                yield Member(path=path, mode=mode, source=Path(place), size=status.st_size)
            else:
                raise InfrastructureError(f"{place} is neither a file nor a folder; images cannot contain it")


def _fail(error: OSError) -> None:
    raise error


def _content(path: Path, size: int) -> Iterator[bytes]:
    """Yield exactly ``size`` bytes of a file, as the header says."""
    left = size
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(min(_PIECE, left + 1)):
                left -= len(piece)
                if left < 0:
                    break
                yield piece
    except OSError as error:
        raise unwritable(f"{path} cannot be read", error) from None
    if left:
        raise InfrastructureError(f"{path} changed while it was read")


def digest_of(listed: Sequence[Member]) -> str:
    """Return the hexadecimal SHA-256 of the archive of some members."""
    return digest_pieces(in_pieces(pack(listed)))
