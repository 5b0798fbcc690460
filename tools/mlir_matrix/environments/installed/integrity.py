"""Find damage in installed packages: compare prefixes with our manifest and wheels with their RECORD.

A manifest lists every file of a prefix with size, hash, mode and time, and every link with its target. Comparing sizes and times
takes milliseconds and finds edited and missing files. Files with another time, as in a copy of the prefix, are hashed. Only a
thorough check, which hashes all files, finds wrong bits.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.integrity import damage
from mlir_matrix.base.digest import digest_file
from mlir_matrix.base.files import holds, locked, unwritable
from mlir_matrix.environments.installed.prefix import OURS
from mlir_matrix.environments.package import Archive

#: Path of the manifest in a prefix.
FILE = f"{OURS}/files.json"
#: Path of the list of the archives that a package was unpacked from, by their hashes.
ARCHIVES = f"{OURS}/archives.json"
_FORMAT = 1
#: Entry of a file: size, hash, mode, time.
_ENTRY = [int, str, int, int]
#: RECORD's prefix of programs: two folders above the packages of an interpreter.
_PROGRAMS = "../../"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedFile:
    """A regular file as it was written; ``path`` is relative to the prefix."""

    path: str
    size: int
    sha256: str
    mode: int
    mtime_ns: int

    @classmethod
    def of(cls, prefix: Path, path: Path) -> UnpackedFile:
        """Return the entry of an existing file."""
        status = path.stat()
        return cls(
            path=path.relative_to(prefix).as_posix(), size=status.st_size, sha256=digest_file(path),
            mode=stat.S_IMODE(status.st_mode), mtime_ns=status.st_mtime_ns,
        )  # fmt: skip


def write_manifest(prefix: Path, files: Iterable[UnpackedFile], links: Mapping[str, str], *, place: str = "") -> None:
    """Write the manifest; add the files in our own folder. ``place``: the only path where the prefix can be used."""
    ours = (UnpackedFile.of(prefix, path) for path in sorted((prefix / OURS).rglob("*")) if path.is_file())
    known = {file.path: [file.size, file.sha256, file.mode, file.mtime_ns] for file in chain(files, ours)}
    value: dict[str, Any] = {
        "format": _FORMAT,
        "files": dict(sorted(known.items())),
        "links": dict(sorted(links.items())),
    }
    if place:
        value["place"] = place
    (prefix / FILE).write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")


def settled(manifest: bytes, *, mtime_s: int) -> bytes:
    """Return a manifest with this time for all files, and the modes of umask 022."""
    value = json.loads(manifest)
    for path, (size, sha256, mode, _) in value["files"].items():
        value["files"][path] = [size, sha256, 0o755 if mode & 0o111 else 0o644, mtime_s * 10**9]
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def write_archives(folder: Path, hashes: Iterable[str]) -> None:
    """Write which archives a package was unpacked from."""
    (folder / OURS).mkdir(exist_ok=True)
    (folder / ARCHIVES).write_text(json.dumps(sorted(hashes)), encoding="utf-8")


def damaged_files(folder: Path, *, thorough: bool, archives: Sequence[Archive] = ()) -> list[str]:
    """Return the damaged files of an installed package. ``thorough``: read every byte, and find added files.

    ``archives``: those of the lock file. A package from other archives counts as damaged, even if its files match its own lists.
    """
    if archives and not _is_made_of(folder, archives):
        return [ARCHIVES]
    look = _damaged_prefix if (folder / FILE).is_file() else _damaged_wheel
    return look(folder, thorough=thorough)


def _is_made_of(folder: Path, archives: Sequence[Archive]) -> bool:
    """Return whether a package was unpacked from one build of each archive, and from nothing else."""
    try:
        found = json.loads((folder / ARCHIVES).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    known = isinstance(found, list) and len(found) == len(archives)
    return known and all(any(value in archive.hashes for value in found) for archive in archives)


def _damaged_prefix(prefix: Path, *, thorough: bool) -> list[str]:
    """Return damaged files and links of a prefix; hash files on all cores, with ``thorough`` every file."""
    manifest = _read(prefix)
    if manifest is None:
        return [FILE]
    root = str(prefix)
    files, links, place = manifest
    if place not in ("", os.path.realpath(prefix)):
        # Its programs contain that path.
        return [f"all files: the prefix only works at {place}"]
    bad = {path for path, target in links.items() if _target(root, path) != target}

    def is_changed(path: str) -> bool | None:
        """Return whether a file is damaged, or None if its bytes must be read."""
        size, _, mode, mtime = files[path]
        try:
            status = os.lstat(os.path.join(root, path))
        except (OSError, ValueError):
            return True
        if not stat.S_ISREG(status.st_mode) or status.st_size != size or (status.st_mode ^ mode) & 0o111:
            return True
        return None if thorough or status.st_mtime_ns != mtime else False

    def has_other_hash(path: str) -> bool:
        try:
            return bool(digest_file(os.path.join(root, path)) != files[path][1])
        except (OSError, ValueError):
            return True

    changed = {path: is_changed(path) for path in files}
    bad.update(path for path, is_bad in changed.items() if is_bad)
    unread = sorted((path for path, is_bad in changed.items() if is_bad is None), key=lambda path: -files[path][0])
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hash") as pool:
        bad.update(compress(unread, pool.map(has_other_hash, unread)))
    if thorough:
        bad.update(_added(prefix, files.keys() | links.keys() | {FILE}))
    return sorted(bad)


def _read(prefix: Path) -> tuple[dict[str, list[Any]], dict[str, str], str] | None:
    """Return files, links and place of a manifest, or None if it is invalid."""
    try:
        manifest = json.loads((prefix / FILE).read_bytes())
        files, links, place = manifest["files"], manifest["links"], manifest.get("place", "")
        sound = (
            manifest["format"] == _FORMAT
            and type(place) is str
            and all([*map(type, entry)] == _ENTRY for entry in files.values())
            and all(type(target) is str for target in links.values())
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return (files, links, place) if sound else None


def _target(root: str, path: str) -> str | None:
    try:
        return os.readlink(os.path.join(root, path))
    except (OSError, ValueError):
        return None


def _added(root: Path, known: Collection[str]) -> set[str]:
    """Return files and links below a folder that are not ``known``, without bytecode, which workers do not read there."""
    found: set[str] = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found.update(os.path.relpath(os.path.join(folder, name), root) for name in (*names, *linked))
    return found - {os.path.normpath(path) for path in known}


def _damaged_wheel(folder: Path, *, thorough: bool) -> list[str]:
    """Return the damaged files of an installed wheel."""
    # The same check that workers make before they use a package.
    quick = [reason] if (reason := damage(str(folder))) else []
    if not thorough:
        return quick
    listed: dict[str, str] = {}
    for record in sorted(folder.glob("*.dist-info/RECORD")):
        try:
            with open(record, encoding="utf-8", newline="") as file:
                # Files that pip wrote have no hash.
                listed |= {path: value for path, value, _ in csv.reader(file)}
        except (OSError, ValueError, csv.Error):
            return [record.relative_to(folder).as_posix()]
    if not listed:
        return ["RECORD is missing"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = set(pool.map(lambda row: _wrong(folder, *row), listed.items()))
    bad |= _added(folder, {ARCHIVES, *(path.removeprefix(_PROGRAMS) for path in listed)})
    return sorted(bad - {""}) or quick


def _wrong(folder: Path, path: str, expected: str) -> str:
    """Return the path if the file is damaged, else an empty string."""
    if not expected or path.startswith(".."):
        return ""
    name, _, value = expected.partition("=")
    try:
        with open(folder / path, "rb") as file:
            found = hashlib.file_digest(file, name).digest()
    except (OSError, ValueError, TypeError):
        return path
    return "" if base64.urlsafe_b64encode(found).rstrip(b"=").decode() == value.rstrip("=") else path


def remove(folder: Path, archives: Sequence[Archive] = ()) -> None:
    """Remove a damaged package atomically, unless another process has replaced it. Raise InfrastructureError.

    A caller that holds the package's lock removes it in any case.
    """
    lock = folder.parent / ".locks" / folder.name
    held = holds(lock)
    if not held and not folder.is_dir():
        return
    aside = folder.with_name(f".new-{folder.name}-damaged-{os.getpid()}")
    try:
        with nullcontext() if held else locked(lock):
            # Another process may have installed it again.
            if held or (folder.is_dir() and damaged_files(folder, thorough=True, archives=archives)):
                with suppress(FileNotFoundError):
                    os.rename(folder, aside)
                shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise unwritable(f"{folder} cannot be removed", error) from None
