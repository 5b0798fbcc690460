"""Unpack Debian packages into one prefix, several at a time, never outside of it, and say what was written.

All files are written first and all links made last, when nothing is written any more: so nothing can be written through
a link, and links are judged when all of them are known: a link that is harmless alone leads out with the help of another
(``a`` to a folder deep down, ``b`` to ``a/../../..``). Owners and setuid bits are ignored: nobody needs to be root.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.digest import digest_file
from mlir_matrix.environments.install.debian_archive import BadArchive, DebReader, Record, open_deb
from mlir_matrix.environments.install.prefix import OURS
from mlir_matrix.files import check, unwritable

_MOST_HOPS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedFile:
    """A regular file as it was written; ``path`` goes from the prefix."""

    path: str
    size: int
    sha256: str
    mode: int
    mtime_ns: int

    @classmethod
    def of(cls, prefix: Path, path: Path) -> UnpackedFile:
        """A file that is in a prefix already."""
        status = path.stat()
        return cls(
            path=path.relative_to(prefix).as_posix(), size=status.st_size, sha256=digest_file(path),
            mode=stat.S_IMODE(status.st_mode), mtime_ns=status.st_mtime_ns,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedLink:
    """A symbolic link to be made, and the archive that has it."""

    path: str
    target: str
    archive: str


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """What an archive brought."""

    files: tuple[UnpackedFile, ...]
    links: tuple[UnpackedLink, ...]


def unpack(
    source: Path,
    prefix: Path,
    *,
    archive: str,
    cancelled: threading.Event | None = None,
) -> Unpacked:
    """Write the files of the package at ``source`` below ``prefix``; its links are for :func:`make_links`.

    ``archive`` is what the package is called in messages. Raises BadArchive, InfrastructureError where the disk is full.
    """
    with open_deb(source, archive=archive) as reader:
        return _Writer(reader, prefix, archive, cancelled).run()


class _Writer:
    def __init__(self, reader: DebReader, prefix: Path, archive: str, cancelled: threading.Event | None) -> None:
        self._reader = reader
        self._prefix = str(prefix)
        self._archive = archive
        self._cancelled = cancelled
        self._files: dict[str, UnpackedFile] = {}
        self._links: dict[str, UnpackedLink] = {}
        self._folders: set[str] = set()

    def run(self) -> Unpacked:
        for record in self._reader.records():
            check(self._cancelled)
            try:
                self._take(record)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise BadArchive(
                    self._archive, "is in the way of another file, or is there twice", record.name
                ) from None
            except OSError as error:
                raise unwritable(f"{self._archive} cannot be unpacked", error) from None
        return Unpacked(files=tuple(self._files.values()), links=tuple(self._links.values()))

    def _take(self, record: Record) -> None:
        path = inside(record.name)
        if path is None or path.split("/", 1)[0] == OURS:
            raise BadArchive(self._archive, "would be written outside of the prefix, or over what is ours", record.name)
        if record.kind == "folder":
            self._folder(path)
        elif not path:
            raise BadArchive(self._archive, f"is a {record.kind} in place of the prefix", record.name)
        elif record.kind == "link":
            self._link(path, record)
        else:
            self._folder(path.rpartition("/")[0])
            if record.kind == "file":
                self._file(path, record)
            else:
                self._hard_link(path, record)

    def _folder(self, path: str) -> None:
        if path not in self._folders:
            # Another package may be making it at the same moment.
            os.makedirs(os.path.join(self._prefix, path), exist_ok=True)
            self._folders.add(path)

    def _file(self, path: str, record: Record) -> None:
        mode = 0o755 if record.executable else 0o644
        state = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(os.path.join(self._prefix, path), flags, mode)
        try:
            for piece in self._reader.content(record.size):
                check(self._cancelled)
                state.update(piece)
                rest = piece
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            # Whatever the umask is.
            os.fchmod(descriptor, mode)
            written = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        self._files[path] = UnpackedFile(
            path=path, size=record.size, sha256=state.hexdigest(), mode=mode, mtime_ns=written.st_mtime_ns
        )

    def _link(self, path: str, record: Record) -> None:
        if path in self._links:
            raise FileExistsError
        self._links[path] = UnpackedLink(path=path, target=record.target, archive=self._archive)

    def _hard_link(self, path: str, record: Record) -> None:
        # Only to what this archive brought itself: anything else may be anybody's file.
        target = inside(record.target)
        file = self._files.get(target) if target is not None else None
        if file is None:
            raise BadArchive(self._archive, "is a hard link to a file that is not in the archive", record.name)
        os.link(os.path.join(self._prefix, file.path), os.path.join(self._prefix, path), follow_symlinks=False)
        self._files[path] = UnpackedFile(
            path=path, size=file.size, sha256=file.sha256, mode=file.mode, mtime_ns=file.mtime_ns
        )


def inside(name: str) -> str | None:
    """The path of a member from the prefix; None for one that leaves it."""
    if name.startswith("/") or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)


def make_links(prefix: Path, links: Iterable[UnpackedLink]) -> dict[str, str]:
    """Make the links; gives path and target of each. Raises BadArchive."""
    made: dict[str, UnpackedLink] = {}
    for link in links:
        other = made.setdefault(link.path, link)
        if other.target != link.target:
            raise BadArchive(link.archive, f"is another link than in {other.archive}", link.path)
    targets = {path: relative(path, link.target) for path, link in made.items()}
    for path, link in made.items():
        if leads_out(path, targets):
            raise BadArchive(link.archive, f"is a link that leads out of the prefix, to '{link.target}'", path)
    for path, link in made.items():
        place = os.path.join(prefix, path)
        if any(parent in targets for parent in _parents(path)):
            raise BadArchive(link.archive, "would be made through another link", path)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(targets[path], place)
        except (FileExistsError, NotADirectoryError):
            raise BadArchive(link.archive, "is a link where there is a file or a folder", path) from None
        except OSError as error:
            raise unwritable(f"{link.archive} cannot be unpacked", error) from None
    return targets


def relative(path: str, target: str) -> str:
    """The target as seen from the link. What is absolute begins at the prefix, as it would in a chroot."""
    if not target.startswith("/"):
        return target
    return os.path.relpath("/" + target.strip("/"), os.path.dirname("/" + path))


def leads_out(path: str, targets: Mapping[str, str]) -> bool:
    """Whether following the link ``path`` leads above the prefix, or nowhere at all."""
    waiting = path.split("/")[::-1]
    here: list[str] = []
    hops = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return True
            here.pop()
            continue
        here.append(part)
        target = targets.get("/".join(here))
        if target is not None:
            hops += 1
            if hops > _MOST_HOPS or not target or target.startswith("/") or "\0" in target:
                return True
            here.pop()
            waiting.extend(target.split("/")[::-1])
    return False


def _parents(path: str) -> Iterable[str]:
    while path := path.rpartition("/")[0]:
        yield path
