"""Unpack several Debian packages at a time into one prefix, without writing outside of it.

All files are written before any link is made, so no file is written through a link. Links are checked together, because two
harmless links may together lead out of the prefix (``a`` to a deep folder, ``b`` to ``a/../../..``). Owners and setuid bits are
ignored, so unpacking does not need root.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from mlir_matrix.base.files import check, unwritable
from mlir_matrix.environments.install.debian_archive import KINDS, BadArchive, DebReader, open_deb
from mlir_matrix.environments.installed.integrity import UnpackedFile
from mlir_matrix.environments.installed.prefix import OURS

_MOST_HOPS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedLink:
    """A symbolic link to make, and the archive that has it."""

    path: str
    target: str
    archive: str


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """Files and links of an archive."""

    files: tuple[UnpackedFile, ...]
    links: tuple[UnpackedLink, ...]


def unpack(
    source: Path,
    prefix: Path,
    *,
    archive: str,
    most: int | None = None,
    cancelled: threading.Event | None = None,
    progress: Callable[[int], object] = lambda _size: None,
) -> Unpacked:
    """Write the files of the package at ``source`` below ``prefix``. :func:`make_links` makes its links.

    ``archive``: its name in messages. ``most``: a limit for the bytes of its files. ``progress`` gets the bytes of each file
    that is written. Raise BadArchive, Cancelled, and InfrastructureError if the disk is full.
    """
    with open_deb(source, archive=archive) as reader:
        writer = _Writer(reader, prefix, archive, cancelled)
        size = 0
        for member in reader.members():
            check(cancelled)
            size += member.size
            if most is not None and size > most:
                raise BadArchive(
                    archive, f"its files have more than the {most} bytes that its lock file allows", member.name
                )
            try:
                writer.take(member)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise BadArchive(archive, "duplicate path", member.name) from None
            except OSError as error:
                raise unwritable(f"{archive} cannot be unpacked", error) from None
            progress(member.size)
    return Unpacked(files=tuple(writer.files.values()), links=tuple(writer.links.values()))


class _Writer:
    def __init__(self, reader: DebReader, prefix: Path, archive: str, cancelled: threading.Event | None) -> None:
        self._reader = reader
        self._prefix = str(prefix)
        self._archive = archive
        self._cancelled = cancelled
        self.files: dict[str, UnpackedFile] = {}
        self.links: dict[str, UnpackedLink] = {}
        self._folders: set[str] = set()

    def take(self, member: tarfile.TarInfo) -> None:
        path = inside(member.name)
        if path is None or path.split("/", 1)[0] == OURS:
            raise BadArchive(self._archive, f"path outside of the prefix, or in {OURS}", member.name)
        kind = KINDS[member.type]
        if kind == "folder":
            self._folder(path)
        elif not path:
            raise BadArchive(self._archive, f"{kind} instead of the prefix itself", member.name)
        elif kind == "link":
            if path in self.links:
                raise FileExistsError
            self.links[path] = UnpackedLink(path=path, target=member.linkname, archive=self._archive)
        else:
            self._folder(path.rpartition("/")[0])
            self.files[path] = self._file(path, member) if kind == "file" else self._hard_link(path, member)

    def _folder(self, path: str) -> None:
        if path not in self._folders:
            # Another thread may create it at the same time.
            os.makedirs(os.path.join(self._prefix, path), exist_ok=True)
            self._folders.add(path)

    def _file(self, path: str, member: tarfile.TarInfo) -> UnpackedFile:
        mode = 0o755 if member.mode & 0o111 else 0o644
        state = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(os.path.join(self._prefix, path), flags, mode), "wb") as file:
            for piece in self._reader.content(member.size):
                check(self._cancelled)
                state.update(piece)
                file.write(piece)
            file.flush()
            # The umask may have cleared bits.
            os.fchmod(file.fileno(), mode)
            mtime = os.fstat(file.fileno()).st_mtime_ns
        return UnpackedFile(path=path, size=member.size, sha256=state.hexdigest(), mode=mode, mtime_ns=mtime)

    def _hard_link(self, path: str, member: tarfile.TarInfo) -> UnpackedFile:
        # A hard link may only lead to a file of the same archive.
        file = self.files.get(inside(member.linkname) or "")
        if file is None:
            raise BadArchive(self._archive, "hard link to a file that is not in the archive", member.name)
        os.link(os.path.join(self._prefix, file.path), os.path.join(self._prefix, path), follow_symlinks=False)
        return replace(file, path=path)


def inside(name: str) -> str | None:
    """Return the path of a member relative to the prefix, or None if it leads out."""
    if name.startswith("/") or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)


def make_links(prefix: Path, links: Iterable[UnpackedLink]) -> dict[str, str]:
    """Make the links; return their targets by path. Raise BadArchive."""
    made: dict[str, UnpackedLink] = {}
    for link in links:
        other = made.setdefault(link.path, link)
        if other.target != link.target:
            raise BadArchive(link.archive, f"link with another target than in {other.archive}", link.path)
    targets = {path: relative(path, link.target) for path, link in made.items()}
    for path, link in made.items():
        if leads_out(path, targets):
            raise BadArchive(link.archive, f"link that leads out of the prefix, to '{link.target}'", path)
    for path, link in made.items():
        place = os.path.join(prefix, path)
        if any(str(parent) in targets for parent in PurePosixPath(path).parents):
            raise BadArchive(link.archive, "path through another link", path)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(targets[path], place)
        except (FileExistsError, NotADirectoryError):
            raise BadArchive(link.archive, "link with the path of a file or folder", path) from None
        except OSError as error:
            raise unwritable(f"{link.archive} cannot be unpacked", error) from None
    return targets


def relative(path: str, target: str) -> str:
    """Return the target relative to the link. An absolute target begins at the prefix, as in a chroot."""
    if not target.startswith("/"):
        return target
    return os.path.relpath("/" + target.strip("/"), os.path.dirname("/" + path))


def leads_out(path: str, targets: Mapping[str, str]) -> bool:
    """Return whether the link ``path`` leads above the prefix, or nowhere."""
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
