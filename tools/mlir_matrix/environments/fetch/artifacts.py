"""Store downloaded files by their SHA-256, and find files in other stores and folders.

A file gets its final name after its hash is checked, so every file with such a name is complete. :meth:`Artifacts.damaged` finds
files that were damaged later. Each file is checked again before it is unpacked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlir_matrix.base.digest import digest_if_readable
from mlir_matrix.base.files import is_held, unwritable
from mlir_matrix.environments.package import Archive, Package

_NAME = re.compile(r"[0-9a-f]{64}")
_PART, _ASIDE = ".part", ".damaged"


@dataclass(frozen=True, kw_only=True, order=True)
class Artifact:
    """A file of the store."""

    sha256: str
    size: int


class Artifacts:
    """The store in ``folder``, which is created for the first file.

    ``others`` are read-only: stores like this one, other homes (``MATRIX_HOME``), or plain folders of files.
    """

    def __init__(self, folder: Path, others: Sequence[Path] = ()) -> None:
        self.folder = folder
        self.others = tuple(others)
        self._hashed: dict[Path, str] = {}
        #: Warnings by path: files of ``others`` with the right name and another hash.
        self.passed_over: dict[Path, str] = {}

    def path(self, sha256: str) -> Path:
        """Return the path of a file, whether it exists or not."""
        if _NAME.fullmatch(sha256) is None:
            raise ValueError(f"no SHA-256: {sha256!r}")
        return self.folder / sha256

    def part(self, sha256: str) -> Path:
        """Return the path of a file while it is downloaded."""
        return self.path(sha256).with_suffix(_PART)

    def has(self, sha256: str, size: int | None = None) -> bool:
        """Return whether the store itself has the file, of this size."""
        return _is_file(self.path(sha256), size)

    def holds(self, archive: Archive) -> bool:
        """Return whether the store itself has an archive, in one of its builds."""
        size = archive.size if len(archive.hashes) == 1 else None
        return any(self.has(value, size) for value in archive.hashes)

    def to_fetch(self, package: Package) -> int:
        """Return the bytes of a package's archives that the store lacks."""
        return sum(archive.size or 0 for archive in package.archives if not self.holds(archive))

    def find(self, sha256: str, size: int | None = None, file: str = "") -> Path | None:
        """Find a file here or in one of the others, whose files are hashed once.

        ``file``: the beginning of the file's name in plain folders, if it has one.
        """
        if self.has(sha256, size):
            return self.path(sha256)
        named = [path for other in self.others for path in (other / sha256, other / "artifacts" / sha256)]
        for path in (*named, *self._plain):
            if _is_file(path, size) and self._digest(path) == sha256:
                # An earlier search found it as another build of the same wheel.
                self.passed_over.pop(path, None)
                return path
        named += [path for path in self._plain if file and _spelled(path.name).startswith(_spelled(file))]
        for path in named:
            if _is_file(path, None) and (digest := self._digest(path)) != sha256:
                reason = f"its sha256 is {digest}, expected {sha256}" if digest else "it cannot be read"
                self.passed_over[path] = f"{path} is ignored: {reason}"
        return None

    def keep(self, part: Path, sha256: str) -> Path:
        """Move a file, whose hash the caller has checked, to its name."""
        destination = self.path(sha256)
        os.replace(part, destination)
        return destination

    def set_aside(self, sha256: str) -> None:
        """Rename a damaged file, so that it is downloaded again. The last damaged one stays for inspection."""
        try:
            os.replace(self.path(sha256), self.path(sha256).with_suffix(_ASIDE))
        except FileNotFoundError:
            return
        except OSError as error:
            raise unwritable(f"{sha256} cannot be renamed", error) from None

    def remove(self, sha256: str) -> int:
        """Delete a file; return the bytes that this freed."""
        path = self.path(sha256)
        try:
            size = path.lstat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise unwritable(f"{path} cannot be removed", error) from None
        return size

    def entries(self) -> list[Artifact]:
        """Return all complete files, sorted by name."""
        try:
            with os.scandir(self.folder) as found:
                names = [(item.name, item.stat(follow_symlinks=False)) for item in found if _NAME.fullmatch(item.name)]
        except FileNotFoundError:
            return []
        return sorted(
            Artifact(sha256=name, size=status.st_size) for name, status in names if stat.S_ISREG(status.st_mode)
        )

    def leftovers(self) -> list[Path]:
        """Return files of interrupted downloads and damaged files; not those of running downloads."""
        found = (path for suffix in (_PART, _ASIDE) for path in self.folder.glob(f"*{suffix}"))
        return sorted(path for path in found if _NAME.fullmatch(path.stem) and not is_held(path))

    def damaged(self, entries: Iterable[Artifact] | None = None) -> Iterator[Artifact]:
        """Hash all or some files on all cores; yield those whose hash is not their name."""
        entries = sorted(self.entries() if entries is None else entries, key=lambda entry: -entry.size)
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hash") as pool:
            digests = pool.map(lambda entry: digest_if_readable(self.path(entry.sha256)), entries)
            yield from (entry for entry, digest in zip(entries, digests, strict=True) if digest != entry.sha256)

    @cached_property
    def _plain(self) -> list[Path]:
        # Files with other names: a cache of apt, a folder of wheels.
        paths = (path for other in self.others if other.is_dir() for path in sorted(other.iterdir()))
        return [path for path in paths if _NAME.fullmatch(path.name) is None and _is_file(path, None)]

    def _digest(self, path: Path) -> str:
        if path not in self._hashed:
            self._hashed[path] = digest_if_readable(path)
        return self._hashed[path]


def _spelled(name: str) -> str:
    """Normalize the file name of a wheel or package. apt includes the epoch, and mirrors leave it out."""
    return re.sub(r"[-_]+", "_", re.sub(r"_\d+%3a", "_", name)).lower()


def _is_file(path: Path, size: int | None) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and size in (None, status.st_size)
