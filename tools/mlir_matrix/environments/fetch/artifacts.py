"""Downloaded files by their SHA-256: each kept once, whatever it is for, and found in a colleague's store as well.

A file has its name only once its hash was checked, so that what is there is complete. Disks and people damage files
later all the same: :meth:`Artifacts.damaged` finds those, and whoever unpacks one checks it again.
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

from mlir_matrix.digest import digest_file
from mlir_matrix.environments.package import Archive, Package
from mlir_matrix.files import is_held, unwritable

_NAME = re.compile(r"[0-9a-f]{64}")
_PART, _ASIDE = ".part", ".damaged"


@dataclass(frozen=True, kw_only=True, order=True)
class Artifact:
    """A file of the store."""

    sha256: str
    size: int


class Artifacts:
    """The store in ``folder``, made when something is added.

    ``others`` are only read: stores like this one, homes of the tool (``MATRIX_HOME``), or plain folders of files.
    """

    def __init__(self, folder: Path, others: Sequence[Path] = ()) -> None:
        self.folder = folder
        self._others = tuple(others)
        self._hashed: dict[Path, str] = {}
        #: What the others have by the right name and is not the right file, by path, and what is to be said of it.
        self.passed_over: dict[Path, str] = {}

    def path(self, sha256: str) -> Path:
        """Where the file is or would be."""
        if _NAME.fullmatch(sha256) is None:
            raise ValueError(f"no SHA-256: {sha256!r}")
        return self.folder / sha256

    def part(self, sha256: str) -> Path:
        """Where the file is while it is being brought."""
        return self.path(sha256).with_suffix(_PART)

    def has(self, sha256: str, size: int | None = None) -> bool:
        """Whether the file is in the store itself, of this size."""
        return _is_file(self.path(sha256), size)

    def holds(self, archive: Archive) -> bool:
        """Whether a file that serves is in the store itself."""
        size = archive.size if len(archive.hashes) == 1 else None
        return any(self.has(value, size) for value in archive.hashes)

    def to_fetch(self, package: Package) -> int:
        """Bytes of a package's archives that are not in the store."""
        return sum(archive.size or 0 for archive in package.archives if not self.holds(archive))

    def find(self, sha256: str, size: int | None = None, file: str = "") -> Path | None:
        """The file, here or in one of the others; what the others have is hashed, once.

        ``file``: what its own name begins with, where it has one.
        """
        if self.has(sha256, size):
            return self.path(sha256)
        found = next((path for path in self._candidates(sha256, size) if self._digest(path) == sha256), None)
        if found is not None:
            # Of several builds that will do, it was not the one that was asked for first.
            self.passed_over.pop(found, None)
            return found
        for path in self._claimants(sha256, file):
            if (digest := self._digest(path)) != sha256:
                is_now = f"its sha256 is {digest or 'not to be read'}, expected {sha256}"
                self.passed_over[path] = f"{path} is damaged, or another file, and was passed over: {is_now}"
        return None

    def keep(self, part: Path, sha256: str) -> Path:
        """Take over a file of this file system, whose hash the caller has checked."""
        destination = self.path(sha256)
        os.replace(part, destination)
        return destination

    def set_aside(self, sha256: str) -> None:
        """Take a damaged file out of the way, so that it is fetched again; the last one is kept to be looked at."""
        try:
            os.replace(self.path(sha256), self.path(sha256).with_suffix(_ASIDE))
        except FileNotFoundError:
            return
        except OSError as error:
            raise unwritable(f"{sha256} cannot be set aside", error) from None

    def remove(self, sha256: str) -> int:
        """Delete a file; gives the bytes that this freed."""
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
        """All complete files, by name."""
        try:
            with os.scandir(self.folder) as found:
                names = [(item.name, item.stat(follow_symlinks=False)) for item in found if _NAME.fullmatch(item.name)]
        except FileNotFoundError:
            return []
        return sorted(
            Artifact(sha256=name, size=status.st_size) for name, status in names if stat.S_ISREG(status.st_mode)
        )

    def leftovers(self) -> list[Path]:
        """What downloads that were killed left, and damaged files that were set aside; not what somebody is fetching."""
        found = (path for suffix in (_PART, _ASIDE) for path in self.folder.glob(f"*{suffix}"))
        return sorted(path for path in found if _NAME.fullmatch(path.stem) and not is_held(path))

    def damaged(self, entries: Iterable[Artifact] | None = None, *, parallel: int | None = None) -> Iterator[Artifact]:
        """Hash all files, or some, again, on all cores; gives those that are no longer what their names say."""
        entries = sorted(self.entries() if entries is None else entries, key=lambda entry: -entry.size)
        with ThreadPoolExecutor(parallel or os.cpu_count() or 1, thread_name_prefix="hash") as pool:
            for entry, digest in zip(entries, pool.map(self._again, entries), strict=True):
                if digest != entry.sha256:
                    yield entry

    def _again(self, entry: Artifact) -> str:
        try:
            return digest_file(self.path(entry.sha256))
        except OSError:
            # Cannot be read: as good as damaged.
            return ""

    def _candidates(self, sha256: str, size: int | None) -> Iterator[Path]:
        for other in self._others:
            for path in (other / sha256, other / "artifacts" / sha256):
                if _is_file(path, size):
                    yield path
        yield from (path for path, length in self._plain if size is None or length == size)

    def _claimants(self, sha256: str, file: str) -> Iterator[Path]:
        """What the others have by the name of this file, whatever is in it."""
        for other in self._others:
            yield from (path for path in (other / sha256, other / "artifacts" / sha256) if _is_file(path, None))
        if file:
            yield from (path for path, _ in self._plain if _spelled(path.name).startswith(_spelled(file)))

    @cached_property
    def _plain(self) -> list[tuple[Path, int]]:
        # Files of the other folders under names of their own: a cache of apt, a folder of wheels.
        found = []
        for other in self._others:
            for path in sorted(other.iterdir()) if other.is_dir() else ():
                if _NAME.fullmatch(path.name) is None and _is_file(path, None):
                    found.append((path, path.stat().st_size))
        return found

    def _digest(self, path: Path) -> str:
        if path not in self._hashed:
            try:
                self._hashed[path] = digest_file(path)
            except OSError:
                self._hashed[path] = ""
        return self._hashed[path]


def _spelled(name: str) -> str:
    """The name of a wheel or a package, however who keeps it writes that: apt has epochs in it, mirrors have none."""
    return re.sub(r"[-_]+", "_", re.sub(r"_\d+%3a", "_", name)).lower()


def _is_file(path: Path, size: int | None) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and size in (None, status.st_size)
