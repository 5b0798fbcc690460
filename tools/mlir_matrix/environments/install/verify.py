"""Whether what is installed is still what was installed, file by file; and making room for it to be made again."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from mlir_matrix.actions.runtime.integrity import damage
from mlir_matrix.environments.install.integrity import added, damaged
from mlir_matrix.environments.install.prefix import OURS
from mlir_matrix.files import holds, locked, unwritable

#: Where pip has put programs, as it says in RECORD: two folders above the packages of an interpreter.
_PROGRAMS = "../../"


def damaged_files(folder: Path, *, thorough: bool) -> list[str]:
    """Return the damaged files of an installed package; ``thorough``: read every byte, find added files as well."""
    look = damaged if (folder / OURS).is_dir() else damaged_wheel
    return look(folder, thorough=thorough)


def damaged_wheel(folder: Path, *, thorough: bool) -> list[str]:
    """The damaged files of an installed wheel; ``thorough``: every byte is read, and what was added is found."""
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
    bad |= added(folder, {path.removeprefix(_PROGRAMS) for path in listed})
    return sorted(bad - {""}) or _at_a_look(folder)


def _at_a_look(folder: Path) -> list[str]:
    """As workers look at it before they run anything of it."""
    said = damage(str(folder))
    return [said] if said else []


def _rows(record: Path) -> Iterator[tuple[str, str]]:
    """Path and hash of what a wheel installed; what pip wrote later has no hash. Raises ValueError for what is no row."""
    with open(record, encoding="utf-8", newline="") as file:
        for path, value, _ in csv.reader(file):
            yield path, value


def _wrong(folder: Path, path: str, expected: str) -> str:
    """The path where the file is not what it was; else nothing."""
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
    """Take a damaged unit away, at once: nobody finds a part of it. What others have made again meanwhile stays.

    Who holds the unit's lock has decided already, for whatever reason. Raises InfrastructureError.
    """
    lock = folder.parent / ".locks" / folder.name
    try:
        if holds(lock):
            _remove(folder)
        elif folder.is_dir():
            with locked(lock):
                # Whoever held it may have made it again.
                if folder.is_dir() and damaged_files(folder, thorough=True):
                    _remove(folder)
    except OSError as error:
        raise unwritable(f"{folder} cannot be removed", error) from None


def _remove(folder: Path) -> None:
    aside = folder.with_name(f".new-{folder.name}-damaged-{os.getpid()}")
    with suppress(FileNotFoundError):
        os.rename(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)
