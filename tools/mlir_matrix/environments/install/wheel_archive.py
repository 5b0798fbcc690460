"""Unpack wheels into the folders of packages.

Wheels may be hostile: this module writes nothing outside of the folder, and no more bytes than the lock file states. RECORD then
lists every file.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import re
import shutil
import stat
import threading
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from mlir_matrix.base.digest import digest_file
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageListener, PackageProgress, ignore
from mlir_matrix.base.files import Cancelled
from mlir_matrix.base.names import printable
from mlir_matrix.environments.installed.elf import MAGIC
from mlir_matrix.environments.installed.prefix import OURS
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, is_version

_CHUNK = 1 << 20
#: The most unpacked bytes per byte of a wheel whose lock file does not state them. Locked wheels have up to 5.
_MOST_EXPANSION = 100
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_BY_INSTALLER = re.compile(r"[^/]+\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json)|(?:.*/)?__pycache__/.*")
_HASH = re.compile(r"sha256=[A-Za-z0-9_-]{43}")


def unpack_wheel(
    wheel: Path, folder: Path, package: WheelPackage, cancelled: threading.Event, listener: PackageListener = ignore
) -> None:
    """Unpack a wheel as pip's ``--target`` does, without Python scripts and C headers. Raise InfrastructureError."""
    label = package.label
    try:
        with zipfile.ZipFile(wheel) as archive:
            _check_size(archive, package, wheel.stat().st_size)
            places = dict(_places(archive, label))
            unpacked, total = 0, sum(member.file_size for member in places)
            for member, path in places.items():
                if cancelled.is_set():
                    raise Cancelled
                listener(PackageProgress(package=label, received=unpacked, total=total, phase="installing"))
                _extract(archive, member, folder / path)
                unpacked += member.file_size
        _rewrite_records(folder, places)
        _check_metadata(folder, package)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        where = os.path.relpath(error.filename, folder)
        raise InfrastructureError(f"{label} is hostile: several members have the path {where!r:.120}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeError, csv.Error) as error:
        raise InfrastructureError(f"{label} is not a valid wheel: {error}") from None


def _check_size(archive: zipfile.ZipFile, package: WheelPackage, size: int) -> None:
    """Raise InfrastructureError if the files have more bytes than allowed. zipfile never reads more bytes than it lists."""
    unpacked = sum(member.file_size for member in archive.infolist())
    # With several hashes, the lock file states the bytes of the first build.
    stated = package.installed if len(package.hashes) == 1 else None
    most = size * _MOST_EXPANSION if stated is None else stated
    if unpacked > most:
        source = f"{_MOST_EXPANSION} times its own size" if stated is None else "as its lock file states"
        raise InfrastructureError(
            f"{package.label} is hostile: its files have {unpacked} bytes, expected at most {most}, {source}"
        )


def _check_metadata(folder: Path, package: WheelPackage) -> None:
    """Raise InfrastructureError if METADATA states another distribution or version than the lock file."""
    found = sorted(path.name for path in folder.glob("*.dist-info"))
    if len(found) != 1 or not (folder / found[0] / "METADATA").is_file():
        raise InfrastructureError(
            f"{package.label} is not a valid wheel: expected one *.dist-info with METADATA, got {', '.join(found) or 'none'}"
        )
    text = (folder / found[0] / "METADATA").read_text(encoding="utf-8", errors="replace")
    stated = HeaderParser().parsestr(text)
    name, version = (str(stated[field]).strip() for field in ("Name", "Version"))
    if canonicalize_name(name) != canonicalize_name(package.name) or not is_version(version, package.version):
        raise InfrastructureError(
            f"{package.label} is another package: its {found[0]}/METADATA states '{printable(f'{name} {version}', 80)}'"
        )


def settled_record(content: bytes) -> bytes:
    """Return a RECORD sorted, without files of the installer and files outside of the folder."""
    rows = [row for row in csv.reader(content.decode().splitlines()) if row]
    return _table(
        sorted(row for row in rows if not row[0].startswith("../") and not left_by_installer(row[0]))
    ).encode()


def left_by_installer(path: str) -> bool:
    """Return whether pip writes a file with this path and wheels do not contain it."""
    return _BY_INSTALLER.fullmatch(path) is not None


def _places(archive: zipfile.ZipFile, label: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Yield members and their paths. Data for the interpreter's folders goes beside the rest, programs go to ``bin``.

    Omit headers, and scripts, which would name an interpreter.
    """
    for member in archive.infolist():
        if member.is_dir():
            continue
        path = PurePosixPath(member.filename)
        mode = member.external_attr >> 16
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or not path.parts:
            raise InfrastructureError(
                f"{label} is hostile: its member {member.filename!r:.120} leads out of the folder"
            )
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise InfrastructureError(f"{label} is hostile: its member {member.filename!r:.120} is not a regular file")
        if path.parts[0].endswith(".data") and len(path.parts) > 2:
            kind, rest = path.parts[1], path.parts[2:]
            if kind == "headers" or (kind == "scripts" and not _is_program(archive, member)):
                continue
            path = PurePosixPath("bin", *rest) if kind == "scripts" else PurePosixPath(*rest)
        if path.parts[0] == OURS:
            raise InfrastructureError(
                f"{label} is hostile: its member {member.filename!r:.120} is in {OURS}, which holds our own files"
            )
        yield member, str(path)


def _is_program(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    with archive.open(member) as file:
        return file.read(len(MAGIC)) == MAGIC


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, open(path, "xb") as target:
        shutil.copyfileobj(source, target, _CHUNK)
    if (member.external_attr >> 16) & 0o111:
        path.chmod(0o755)


def _rewrite_records(folder: Path, places: dict[zipfile.ZipInfo, str]) -> None:
    """Write the new path and the hash of every file to RECORD, so that any damage can be found."""
    for record in folder.glob("*.dist-info/RECORD"):
        rows = csv.reader(record.read_text(encoding="utf-8").splitlines())
        stated = {row[0]: row[1:] for row in rows if row}
        text = _table(
            [path, *_hash_and_size(folder, path, member.file_size, stated.get(member.filename, []))]
            for member, path in places.items()
        )
        record.write_text(text, encoding="utf-8")


def _table(rows: Iterable[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _hash_and_size(folder: Path, path: str, size: int, stated: list[str]) -> list[str]:
    """Return hash and size of a file, computed if the wheel does not state them."""
    if _RECORD.fullmatch(path):
        return ["", ""]
    if len(stated) == 2 and _HASH.fullmatch(stated[0]) and stated[1] == str(size):
        return stated
    value = base64.urlsafe_b64encode(bytes.fromhex(digest_file(folder / path))).rstrip(b"=").decode()
    return [f"sha256={value}", str(size)]
