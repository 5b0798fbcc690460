"""What is in a wheel, and where it belongs in the folder of its package.

Archives may come from anybody: nothing is written outside of the folder, and what is written is in its list of files.
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
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mlir_matrix.digest import digest_file
from mlir_matrix.environments.install.elf import MAGIC
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import Cancelled

_CHUNK = 1 << 20
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_BY_INSTALLER = re.compile(r"[^/]+\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json)|(?:.*/)?__pycache__/.*")
_HASH = re.compile(r"sha256=[A-Za-z0-9_-]{43}")


def unpack_wheel(wheel: Path, folder: Path, label: str, cancelled: threading.Event) -> None:
    """Unpack a wheel as pip's ``--target`` does, without scripts of Python. Nothing is written outside of ``folder``.

    Raises InfrastructureError for an archive that is none, or whose members would lie elsewhere.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            places = dict(_places(archive, label))
            for member, path in places.items():
                if cancelled.is_set():
                    raise Cancelled
                _extract(archive, member, folder / path)
        _rewrite_records(folder, places)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        where = os.path.relpath(error.filename, folder)
        raise InfrastructureError(f"{label} is hostile: several of its members would lie at {where!r:.120}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeError, csv.Error) as error:
        raise InfrastructureError(f"{label} is no wheel that can be unpacked: {error}") from None


def settled_record(content: bytes) -> bytes:
    """The same list of files, in order, without what only says who installed them, and without what lies elsewhere."""
    rows = [row for row in csv.reader(content.decode().splitlines()) if row]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(sorted(row for row in rows if not row[0].startswith("../") and not left_by_installer(row[0])))
    return text.getvalue().encode()


def left_by_installer(path: str) -> bool:
    """Whether pip writes such a file, by its path in the folder of a wheel, and the wheel does not bring it."""
    return _BY_INSTALLER.fullmatch(path) is not None


def _places(archive: zipfile.ZipFile, label: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Where each member belongs: what is for the interpreter's folders beside the rest, scripts and headers nowhere.

    Programs are among the scripts, too: those are in ``bin``. A script would name an interpreter that it runs on.
    """
    for member in archive.infolist():
        if member.is_dir():
            continue
        path = PurePosixPath(member.filename)
        mode = member.external_attr >> 16
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or not path.parts:
            raise InfrastructureError(f"{label} is hostile: its member {member.filename!r:.120} would lie elsewhere")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise InfrastructureError(f"{label} is hostile: its member {member.filename!r:.120} is no plain file")
        if path.parts[0].endswith(".data") and len(path.parts) > 2:
            kind, rest = path.parts[1], path.parts[2:]
            if kind == "headers" or (kind == "scripts" and not _is_program(archive, member)):
                continue
            path = PurePosixPath("bin", *rest) if kind == "scripts" else PurePosixPath(*rest)
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
    """The list of files says where they are now, and has all of them, so that damage to any can be found."""
    for record in folder.glob("*.dist-info/RECORD"):
        rows = csv.reader(record.read_text(encoding="utf-8").splitlines())
        said = {row[0]: row[1:] for row in rows if row}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for member, path in places.items():
            writer.writerow([path, *_known(folder, path, member.file_size, said.get(member.filename, []))])
        record.write_text(text.getvalue(), encoding="utf-8")


def _known(folder: Path, path: str, size: int, said: list[str]) -> list[str]:
    """Hash and size of a file, found out where the wheel does not say."""
    if _RECORD.fullmatch(path):
        return ["", ""]
    if len(said) == 2 and _HASH.fullmatch(said[0]) and said[1] == str(size):
        return said
    value = base64.urlsafe_b64encode(bytes.fromhex(digest_file(folder / path))).rstrip(b"=").decode()
    return [f"sha256={value}", str(size)]
