"""The action cache: blobs by their content, results by the key of the action that made them.

Both are plain files that appear complete or not at all, so a run that is killed loses nothing that was finished, and two
runs may share a cache. A blob is checked against its name whenever it is read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from mlir_matrix.digest import digest_bytes, digest_file
from mlir_matrix.errors import InfrastructureError

#: Bump when the meaning of entries changes: older ones are then not found, rather than misread.
_FORMAT = 1
_serial = count()


class LostBlob(FileNotFoundError):
    """Bytes that a result speaks of are not here, or were not what their name says and have been removed."""

    def __init__(self, digest: str, why: str) -> None:
        super().__init__(f"the cached file {digest[:12]} {why}")
        self.digest = digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of an action: its outcome (``{"outcome": "ok", …}`` or a failure) and its outputs by digest."""

    outcome: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=dict)
    #: Seconds and memory of the execution that made it; beside the digested outputs.
    usage: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether those that follow have something to go on with."""
        return self.outcome["outcome"] == "ok"


class Store:
    """Blobs and results under one folder."""

    def __init__(self, folder: Path) -> None:
        self._blobs = str(folder / "blobs")
        self._results = str(folder / f"results-v{_FORMAT}")

    def prepare(self) -> None:
        """Make the folders, so that writing is one call each."""
        try:
            for base in (self._blobs, self._results):
                if not os.path.isdir(os.path.join(base, "ff")):
                    for shard in range(256):
                        os.makedirs(os.path.join(base, f"{shard:02x}"), exist_ok=True)
        except OSError as error:
            raise InfrastructureError(f"the action cache cannot be written: {error}") from error

    def blob_path(self, digest: str) -> str:
        """Where the bytes with this digest are, if they are here."""
        return f"{self._blobs}/{digest[:2]}/{digest}"

    def has_blob(self, digest: str) -> bool:
        """Whether the bytes are here."""
        return os.path.exists(self.blob_path(digest))

    def read_blob(self, digest: str) -> bytes:
        """The bytes, checked. Raises LostBlob, after which whoever made them has to make them again."""
        path = self.blob_path(digest)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            raise LostBlob(digest, "is gone") from None
        if digest_bytes(data) != digest:
            os.unlink(path)
            raise LostBlob(digest, "was damaged and has been removed")
        return data

    def take_file(self, path: str) -> str:
        """Move a file in and return its digest."""
        digest = digest_file(path)
        os.replace(path, self.blob_path(digest))
        return digest

    def _result_path(self, key: str) -> str:
        return f"{self._results}/{key[:2]}/{key}"

    def find(self, key: str) -> Result | None:
        """The result kept under a key, if it and all its outputs are here."""
        try:
            with open(self._result_path(key), "rb") as file:
                entry = json.loads(file.read())
            result = Result(**entry)
        except (OSError, ValueError, TypeError):
            return None
        return result if all(self.has_blob(digest) for digest in result.outputs.values()) else None

    def keep(self, key: str, result: Result) -> None:
        """Keep a result under a key."""
        entry = {
            "outcome": dict(result.outcome),
            "outputs": dict(result.outputs),
            "usage": dict(result.usage),
            "metrics": dict(result.metrics),
        }
        path = self._result_path(key)
        temporary = f"{path}.{os.getpid()}.{next(_serial)}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(entry, file, separators=(",", ":"))
        os.replace(temporary, path)


def sweep_scratch(scratch: Path) -> None:
    """Remove the folders of runs that were killed: those whose process is gone."""
    try:
        names = os.listdir(scratch)
    except FileNotFoundError:
        return
    for name in names:
        owner = name.split("-", 1)[0]
        if not (owner.isdigit() and os.path.exists(f"/proc/{owner}")):
            remove_folder(scratch / name)


def remove_folder(folder: Path | str) -> None:
    """Remove what an action left, however deep it is."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
