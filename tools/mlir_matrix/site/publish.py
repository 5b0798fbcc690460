"""Write the files of a site so that readers see one build of it whole at any time.

Data and static files have names with a digest of their content and never change. A page names the manifest of its build, so it is
replaced last, and what the build before names stays until the next one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import acquire, unwritable, write_file, write_text
from mlir_matrix.site.documents import SCHEMA

MARKER = ".mlir-matrix-site"
_FOLDERS = ("data", "static")
_CALL, _END = "matrix.put(", ");\n"
#: Hexadecimal digits of the digest in a name.
_DIGITS = 20
#: Files below the site, and those that a build wrote or began to write: files of others stay.
_PATH = re.compile(r"(?:data|static)/\w[\w.-]*", re.ASCII)
_OURS = re.compile(rf"(?:[\w.-]+-)?([0-9a-f]{{{_DIGITS}}})\.\w+", re.ASCII)


class SiteState(TypedDict):
    """What the marker keeps for the next build."""

    schema: str
    version: str
    """The version of mlir-matrix that built the site; another one builds it anew."""
    database: str
    """The digest of the name of the database."""
    runs: list[str]
    """The identifiers of the runs of the cells, in the order of their indices."""
    files: dict[str, str]
    """As in the manifest."""
    written: list[str]
    """The paths of all files of this build but its pages."""


class Publication:
    """Writes a new build of a site, and reads the files of the build before."""

    def __init__(self, folder: Path, before: SiteState | None) -> None:
        self.before = before
        #: Paths of documents, by name.
        self.files: dict[str, str] = {}
        self._folder = folder
        self._written: dict[str, None] = {}
        #: Paths of files whose content has the digest of their name.
        self._whole: set[str] = set()
        self._pages: dict[str, str] = {}

    def put(self, name: str, document: object) -> None:
        """Write a document that pages fetch."""
        self.files[name] = self._write_call(name, document, "")

    def put_manifest(self, document: object) -> str:
        """Write the manifest, when all documents are there; return its path."""
        return self._write_call("manifest", document, "manifest-")

    def put_file(self, name: str, data: bytes, suffix: str) -> str:
        """Write a file; return its path below the site. Its name is only that in the manifest."""
        self.files[name] = self._write("data/", data, suffix)
        return self.files[name]

    def put_static(self, name: str, data: bytes) -> str:
        """Write a file of all pages, ``site.css``; return its path below the site."""
        stem, suffix = os.path.splitext(name)
        return self._write(f"static/{stem}-", data, suffix)

    def keep(self, name: str) -> bool:
        """Keep a document or a file of the build before, by its name or path; return False if there is none, or it is damaged."""
        written = self.before["written"] if self.before else []
        path = self.before["files"].get(name, name) if self.before else name
        if path not in written or (path not in self._whole and self._read(path) is None):
            return False
        if path != name:
            self.files[name] = path
        self._written[path] = None
        return True

    def _write_call(self, name: str, document: object, prefix: str) -> str:
        # Only ASCII: a browser may take a file from a disk as any encoding, and no text can end the call.
        text = f"{_CALL}{json.dumps(name)}, {json.dumps(document, allow_nan=False, separators=(',', ':'))}{_END}"
        return self._write(f"data/{prefix}", text.encode(), ".js")

    def _write(self, start: str, data: bytes, suffix: str) -> str:
        path = f"{start}{digest_bytes(data)[:_DIGITS]}{suffix}"
        self._written[path] = None
        file = self._folder / path
        # One that was cut short is written again.
        if not file.exists() or file.stat().st_size != len(data):
            scratch = file.with_suffix(".new")
            try:
                scratch.write_bytes(data)
                os.replace(scratch, file)
            except OSError as error:
                scratch.unlink(missing_ok=True)
                raise unwritable(f"{file} cannot be written", error) from None
        return path

    def page(self, name: str, text: str) -> None:
        """Give the text of a page, which :meth:`finish` writes."""
        self._pages[name] = text

    def published(self, name: str) -> Any:
        """Return a document of the build before; None if there is none, or its file is damaged."""
        path = self.before["files"].get(name) if self.before else None
        if path is None:
            return None
        data = self._read(path)
        if data is None:
            return None
        try:
            found, document = json.loads(data.decode("ascii").removeprefix(_CALL).removesuffix(_END).join("[]"))
        except (ValueError, RecursionError):
            return None
        return document if found == name else None

    def _read(self, path: str) -> bytes | None:
        """Return a file of the build before; None unless its content has the digest of its name."""
        named = _OURS.fullmatch(path.rpartition("/")[2])
        try:
            data = (self._folder / path).read_bytes()
        except OSError:
            return None
        if named is None or digest_bytes(data)[:_DIGITS] != named[1]:
            return None
        self._whole.add(path)
        return data

    def finish(self, version: str, database: str, runs: list[str]) -> None:
        """Replace the pages, then the marker, then remove what neither this build nor the one before names."""
        for name, text in self._pages.items():
            write_text(self._folder / name, text)
        state: SiteState = {
            "schema": SCHEMA, "version": version, "database": database, "runs": runs, "files": self.files,
            "written": list(self._written),
        }  # fmt: skip
        write_text(self._folder / MARKER, json.dumps(state))
        named = self._written.keys() | set(self.before["written"] if self.before else ())
        for folder in _FOLDERS:
            for entry in os.scandir(self._folder / folder):
                if f"{folder}/{entry.name}" not in named and _OURS.fullmatch(entry.name):
                    os.unlink(entry.path)
        # Of killed publishers.
        for left in self._folder.glob("*.new"):
            left.unlink()


def make_folder(folder: Path) -> None:
    """Make the folder of a site. Raise UsageError for a file, and for a folder with files that is no site."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; expected a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A publisher may have been killed while it made the marker.
        is_new = all(path.name.startswith(MARKER) for path in folder.iterdir())
        is_ours = is_new or (folder / MARKER).exists()
    except OSError as error:
        raise unwritable(f"{folder} cannot be made", error) from None
    if not is_ours:
        raise UsageError(f"{folder} is not empty, and no site of mlir-matrix; name an empty or a new folder")


@contextmanager
def publishing(folder: Path) -> Iterator[Publication]:
    """Open a site for a new build, which waits for other publishers. Raise UsageError for a folder that is no site, and full."""
    make_folder(folder)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unwritable(f"{folder} cannot be opened", error) from None
    try:
        acquire(descriptor, None)
        marker = folder / MARKER
        if not marker.exists():
            # The first file, so that a folder with half of the first build is known as a site.
            write_file(marker, b"{}")
        for name in _FOLDERS:
            (folder / name).mkdir(exist_ok=True)
        yield Publication(folder, _state(marker))
    except OSError as error:
        raise unwritable(f"{folder} cannot be written", error) from None
    finally:
        os.close(descriptor)


def _state(marker: Path) -> SiteState | None:
    """Return the state of the last build; None if there is none, it names files elsewhere, or another schema has made it."""
    try:
        found = json.loads(marker.read_bytes())
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    if found.keys() != SiteState.__annotations__.keys():
        return None
    try:
        state = TypeAdapter[SiteState](SiteState).validate_python(found, strict=True)
    except ValidationError:
        return None
    return state if all(map(_PATH.fullmatch, [*state["written"], *state["files"].values()])) else None
