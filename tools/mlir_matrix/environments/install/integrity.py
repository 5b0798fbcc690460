"""Check that installed packages are still what was installed: prefixes by our manifest, wheels by their RECORD.

A manifest lists every file of a prefix with size, hash, mode and time, and every link with its target. Comparing sizes and
times takes milliseconds and finds what was edited or lost; only files that look different, as after a copy of the prefix,
are hashed. A disk that loses bits is found by hashing everything.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.integrity import damage
from mlir_matrix.digest import digest_file
from mlir_matrix.environments.install.prefix import OURS
from mlir_matrix.environments.install.unpack import UnpackedFile
from mlir_matrix.files import holds, locked, unwritable

#: Where it is in a prefix.
FILE = f"{OURS}/files.json"
_FORMAT = 1
#: What is known of a file: size, hash, mode, time.
_ENTRY = [int, str, int, int]
#: Where pip puts programs, as RECORD spells it: two folders above the packages of an interpreter.
_PROGRAMS = "../../"


def write_manifest(prefix: Path, files: Iterable[UnpackedFile], links: Mapping[str, str], *, place: str = "") -> None:
    """Write down what was unpacked, and what is in our own folder by now; ``place`` for what is of use there only."""
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
    """The same list where all that was files' own, but for being executable, is gone: written at one time, by one umask."""
    value = json.loads(manifest)
    for path, (size, sha256, mode, _) in value["files"].items():
        value["files"][path] = [size, sha256, 0o755 if mode & 0o111 else 0o644, mtime_s * 10**9]
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def damaged_files(folder: Path, *, thorough: bool) -> list[str]:
    """Return the damaged files of an installed package; ``thorough``: read every byte, find added files as well."""
    look = _damaged_prefix if (folder / OURS).is_dir() else _damaged_wheel
    return look(folder, thorough=thorough)


def _damaged_prefix(prefix: Path, *, thorough: bool) -> list[str]:
    """Return damaged files and links, from the prefix; ``thorough`` hashes every file on all cores."""
    manifest = _read(prefix)
    if manifest is None:
        return [FILE]
    root = str(prefix)
    files, links, place = manifest
    if place not in ("", os.path.realpath(prefix)):
        # All of its programs would look there.
        return [f"everything: it was made for {place}"]
    bad = {path for path, target in links.items() if _target(root, path) != target}
    doubtful = []
    for path, entry in files.items():
        looks = _looks(root, path, entry)
        if looks is None:
            bad.add(path)
        elif thorough or not looks:
            doubtful.append(path)
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="hash") as pool:
        doubtful.sort(key=lambda path: -files[path][0])
        hashes = pool.map(lambda path: _digest(root, path), doubtful)
        bad.update(path for path, found in zip(doubtful, hashes, strict=True) if found != files[path][1])
    if thorough:
        bad.update(_added(prefix, files.keys() | links.keys() | {FILE}))
    return sorted(bad)


def _read(prefix: Path) -> tuple[dict[str, list[Any]], dict[str, str], str] | None:
    """Files, links and the place; None for anything that :func:`write_manifest` would not have written."""
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


def _looks(root: str, path: str, entry: list[Any]) -> bool | None:
    """Whether the file looks untouched; None where it is certainly not what it was."""
    size, _, mode, mtime = entry
    try:
        status = os.lstat(os.path.join(root, path))
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size != size or (status.st_mode ^ mode) & 0o111:
        return None
    return bool(status.st_mtime_ns == mtime)


def _digest(root: str, path: str) -> str:
    try:
        return digest_file(os.path.join(root, path))
    except (OSError, ValueError):
        return ""


def _target(root: str, path: str) -> str | None:
    try:
        return os.readlink(os.path.join(root, path))
    except (OSError, ValueError):
        return None


def _added(root: Path, known: Collection[str]) -> set[str]:
    """Files and links below a folder that are not ``known``; all paths go from there.

    Bytecode is none: people who try a module leave it, and workers keep theirs elsewhere and do not look at it.
    """
    found: set[str] = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found.update(os.path.relpath(os.path.join(folder, name), root) for name in (*names, *linked))
    return found - {os.path.normpath(path) for path in known}


def _damaged_wheel(folder: Path, *, thorough: bool) -> list[str]:
    """Return the damaged files of an installed wheel."""
    if not thorough:
        return _at_a_look(folder)
    listed: dict[str, str] = {}
    for record in sorted(folder.glob("*.dist-info/RECORD")):
        try:
            listed |= dict(_rows(record))
        except (OSError, ValueError, csv.Error):
            return [record.relative_to(folder).as_posix()]
    if not listed:
        return ["RECORD is missing"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = set(pool.map(lambda row: _wrong(folder, *row), listed.items()))
    bad |= _added(folder, {path.removeprefix(_PROGRAMS) for path in listed})
    return sorted(bad - {""}) or _at_a_look(folder)


def _at_a_look(folder: Path) -> list[str]:
    """Check what workers check before they run anything of a package."""
    said = damage(str(folder))
    return [said] if said else []


def _rows(record: Path) -> Iterator[tuple[str, str]]:
    """Yield path and hash of each file of a wheel; files that pip wrote have no hash. Raises ValueError."""
    with open(record, encoding="utf-8", newline="") as file:
        for path, value, _ in csv.reader(file):
            yield path, value


def _wrong(folder: Path, path: str, expected: str) -> str:
    """Return the path of a damaged file; else an empty text."""
    if not expected or path.startswith(".."):
        return ""
    name, _, value = expected.partition("=")
    try:
        with open(folder / path, "rb") as file:
            found = hashlib.file_digest(file, name).digest()
    except (OSError, ValueError, TypeError):
        return path
    return "" if base64.urlsafe_b64encode(found).rstrip(b"=").decode() == value.rstrip("=") else path


def remove(folder: Path) -> None:
    """Remove a damaged package at once, so that nobody finds a part of it. A package that was installed anew stays.

    A caller that holds the package's lock removes it in any case. Raises InfrastructureError.
    """
    lock = folder.parent / ".locks" / folder.name
    try:
        if holds(lock):
            _remove(folder)
        elif folder.is_dir():
            with locked(lock):
                # The process that held it may have installed the package again.
                if folder.is_dir() and damaged_files(folder, thorough=True):
                    _remove(folder)
    except OSError as error:
        raise unwritable(f"{folder} cannot be removed", error) from None


def _remove(folder: Path) -> None:
    aside = folder.with_name(f".new-{folder.name}-damaged-{os.getpid()}")
    with suppress(FileNotFoundError):
        os.rename(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)
