"""Folders of actions: filled with request and inputs, emptied of outputs, and used again."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlir_matrix.actions.runtime.child import REQUEST_FILE
from mlir_matrix.actions.runtime.collect import metrics_of, outcome_of, remove_folder
from mlir_matrix.actions.runtime.contract import INPUT_FOLDER, OUTPUT_FOLDER
from mlir_matrix.digest import digest_bytes
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.execute.action_cache import ActionCache, Result, read_bytes, write_bytes
from mlir_matrix.execute.keys import Read, request
from mlir_matrix.execute.large_files import LARGE, DifferentBytesError, copy_file, write_all
from mlir_matrix.paths import Home
from mlir_matrix.plan.graph import Action

_copies = count()
#: Largest size and number of kept files. A run writes far fewer between the ends of two actions.
_SMALL = 1 << 16
_MOST = 1000
#: ``_IOR('f', 1, long)``: immutable, append-only, encrypted, and more. ``_IOR('X', 31, struct fsxattr)``: the project, too.
_FS_IOC_GETFLAGS, _FS_IOC_FSGETXATTR = 0x80086601, 0x801C581F
#: All of a file or folder but content and times.
Attributes = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """An action with its key and everything that it reads."""

    key: str
    action: Action
    reads: Sequence[Read]

    @property
    def request(self) -> dict[str, Any]:
        """Return the request file."""
        return request(self.action, {read.name: read.path for read in self.reads})


def new_scratch(home: Home) -> Path:
    """Return a path for the scratch folder of a run. Nothing is made."""
    return home.scratch / f"{os.getpid()}-{time.monotonic_ns()}"


def make_scratch(scratch: Path, home: Home) -> Path:
    """Make the scratch folder of a run; remove those of killed runs. Raise InfrastructureError."""
    _sweep(home.scratch)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        home.packages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfrastructureError(f"the folder for running actions cannot be made: {error}") from error
    return scratch


def _sweep(scratch: Path) -> None:
    """Remove scratch folders whose process has ended."""
    try:
        names = os.listdir(scratch)
    except FileNotFoundError:
        return
    for name in names:
        owner = name.split("-", 1)[0]
        if not (owner.isdigit() and os.path.exists(f"/proc/{owner}")):
            remove_folder(f"{scratch}/{name}")


class Folders:
    """Folders for actions. One is used again only if it has all the attributes that it had when it was filled.

    Making and removing a folder may take longer than a small action.
    """

    _INSIDE = (INPUT_FOLDER, OUTPUT_FOLDER)

    def __init__(self, base: Path, files: FilePool) -> None:
        self._base = str(base)
        self._files = files
        self._free: list[str] = []
        self._serial = 0
        #: Attributes by folder, as of when it was filled.
        self._new: dict[str, Sequence[Attributes]] = {}

    def take(self) -> str:
        """Return an empty folder, with empty folders for inputs and outputs in it."""
        if self._free:
            return self._free.pop()
        self._serial += 1
        folder = f"{self._base}/{self._serial}"
        for path in (folder, *(f"{folder}/{name}" for name in self._INSIDE)):
            os.mkdir(path, 0o755)
        return folder

    def fill(
        self, folder: str, prepared: Prepared, store: ActionCache, copies: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Write the request and copies of the inputs. An action may change its copies, never the originals.

        ``copies``: of large inputs, by their path in the folder. Raise LostBlob, ChangedSource, or OSError where the machine fails.
        """
        # By now its owner is set.
        self._new[folder] = self._look(folder)
        for read in prepared.reads:
            if read.path in copies:
                os.rename(copies[read.path], f"{folder}/{read.path}")
                continue
            data = store.read_blob(read.digest) if read.file is None else _source_bytes(read.file, read.digest)
            self._files.write(f"{folder}/{read.path}", data)
        self._files.write(f"{folder}/{REQUEST_FILE}", json.dumps(prepared.request, sort_keys=True).encode())

    def give_back(self, folder: str) -> None:
        """Take back the folder of an action that has ended. Remove it if its attributes have changed."""
        if self.empty(folder):
            self._free.append(folder)
        else:
            remove_folder(folder)

    def empty(self, folder: str) -> bool:
        """Remove all files from a folder. Return False if its attributes have changed."""
        try:
            return (
                self._look(folder) == self._new.get(folder)
                and self._clear(folder, self._INSIDE)
                and all(self._clear(f"{folder}/{name}") for name in self._INSIDE)
            )
        except OSError:
            return False

    def _look(self, folder: str) -> Sequence[Attributes]:
        paths = (folder, *(f"{folder}/{name}" for name in self._INSIDE))
        return [attributes(path, os.O_DIRECTORY) for path in paths]

    def _clear(self, folder: str, inside: Sequence[str] = ()) -> bool:
        """Remove the files from a folder. Return False if it holds other folders than ``inside``."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    self._files.discard(entry.path)
                elif entry.name not in inside:
                    return False
        return True


class ChangedSource(OSError):
    """A source file has changed since the key of its action was computed."""


def _source_bytes(path: Path, digest: str) -> bytes:
    data = read_bytes(str(path))
    if digest_bytes(data) != digest:
        raise ChangedSource(f"{path.name} changed while the run was going on; run it again")
    return data


def _plain(path: str, folder: str, stop: threading.Event | None = None) -> str:
    """Replace an output by a copy of its bytes if it has other names, attributes or special mode bits."""
    found = os.lstat(path)
    if found.st_nlink > 1 or found.st_mode & 0o7002 or has_attributes(path):
        # Not in the folder itself: it may have a default ACL.
        copy_file(path, f"{folder}.copy", None, stop)
        os.replace(f"{folder}.copy", path)
    return path


def large_inputs(prepared: Prepared, store: ActionCache) -> list[Read]:
    """Return the inputs of an action that are copied in a thread."""
    return [
        read
        for read in prepared.reads
        if (store.is_large(read.digest) if read.file is None else os.stat(read.file).st_size > LARGE)
    ]


def copy_inputs(reads: Sequence[Read], scratch: Path, store: ActionCache, stop: threading.Event) -> dict[str, str]:
    """Copy large inputs into the scratch folder, for :meth:`Folders.fill`. Raise LostBlob, ChangedSource or OSError."""
    copies: dict[str, str] = {}
    try:
        for read in reads:
            copy = f"{scratch}/copy-{next(_copies)}"
            if read.file is None:
                store.copy_blob(read.digest, copy, stop)
            else:
                _copy_source(read.file, copy, read.digest, stop)
            copies[read.path] = copy
    except OSError:
        for copy in copies.values():
            os.unlink(copy)
        raise
    return copies


def _copy_source(path: Path, copy: str, digest: str, stop: threading.Event) -> None:
    try:
        copy_file(str(path), copy, digest, stop)
    except DifferentBytesError:
        raise ChangedSource(f"{path.name} changed while the run was going on; run it again") from None


def large_outputs(folder: str, action: Action) -> list[str]:
    """Return the paths of outputs that are hashed in a thread before :func:`collect`."""
    out = f"{folder}/{OUTPUT_FOLDER}"
    try:
        # A link might lead to files of other users.
        if not stat.S_ISDIR(os.lstat(out).st_mode):
            return []
        found = {path: os.lstat(f"{out}/{path}") for path in action.outputs.values()}
    except OSError:
        return []
    return [f"{out}/{path}" for path, it in found.items() if stat.S_ISREG(it.st_mode) and it.st_size > LARGE]


def hash_outputs(paths: Sequence[str], folder: str, store: ActionCache, stop: threading.Event) -> None:
    """Hash the large outputs of an action that has ended, for :func:`collect`."""
    for path in paths:
        store.hash_large(_plain(path, folder, stop), stop)


def collect(folder: str, action: Action, usage: Mapping[str, float], store: ActionCache) -> Result:
    """Read the outcome and move the outputs into the store. Raise DamagedFolderError, or OSError where the machine fails."""
    outcome = outcome_of(folder, action.stage, action.outputs)
    ok = outcome["outcome"] == "ok"
    files = action.outputs.items() if ok else ()
    outputs = {name: store.take_file(_plain(f"{folder}/{OUTPUT_FOLDER}/{path}", folder)) for name, path in files}
    return Result(outcome=outcome, outputs=outputs, usage=usage, metrics=metrics_of(folder, ok=ok))


class FilePool:
    """Small files that are no longer needed, written anew instead of removed and made.

    To make a file costs more than to fill it. Where many were just removed, some file systems (ext4 without a journal) search
    for a tenth of a millisecond and more for a place for the next one. A run makes and drops several files per action. A file
    is used again only if it has the attributes of a new one; the check takes 0.01 ms.
    """

    def __init__(self, folder: str) -> None:
        """``folder`` holds unused files. It is made with the first file."""
        self._folder = folder
        self._free: list[str] = []
        self._serial = 0
        self._new: Attributes = ()

    def discard(self, path: str) -> None:
        """Remove anything but a folder. Keep an ordinary file without another name for later use."""
        found = os.lstat(path)
        plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if plain and found.st_size <= _SMALL and len(self._free) < _MOST and _is(path, self._new):
            spare = self._name()
            os.rename(path, spare)
            self._free.append(spare)
        else:
            os.unlink(path)

    def write(self, path: str, data: bytes) -> None:
        """Write a file, replacing an older one. It appears complete or not at all."""
        spare = self._free.pop() if self._free else ""
        try:
            if spare:
                _overwrite(spare, data)
            else:
                spare = self._name()
                # All in one folder: to make files in one of many costs file systems several times as much.
                write_bytes(spare, data)
                self._new = self._new or attributes(spare)
            os.rename(spare, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(spare)
            raise

    def _name(self) -> str:
        if self._serial == 0:
            os.makedirs(self._folder, 0o700)
        self._serial += 1
        return f"{self._folder}/{self._serial}"


def attributes(path: str, kind: int = 0) -> Attributes:
    """Return mode, owner, ACLs and other extended attributes, flags and project of a file or folder (``O_DIRECTORY``)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind)
    try:
        found = os.fstat(descriptor)
        flags, more = _ioctl(descriptor, _FS_IOC_GETFLAGS, 8), _ioctl(descriptor, _FS_IOC_FSGETXATTR, 28)
        # Bytes 8 to 12 are the number of extents, which follows the content.
        return found.st_mode, found.st_uid, found.st_gid, _extended(descriptor), flags, more[:8], more[12:]
    finally:
        os.close(descriptor)


def _extended(descriptor: int) -> list[tuple[str, bytes]]:
    """Return extended attributes, ACLs among them; none on a file system without any."""
    try:
        return [(name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor)]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise


def has_attributes(path: str) -> bool:
    """Return whether a file that is no link has extended attributes other than those of a security module."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return any(not name.startswith("security.") for name, _ in _extended(descriptor))
    finally:
        os.close(descriptor)


def _ioctl(descriptor: int, request: int, size: int) -> bytes:
    """Return the answer of the file system; empty if it does not know the request."""
    try:
        return fcntl.ioctl(descriptor, request, bytes(size))
    except OSError:
        return b""


def _is(path: str, new: Attributes) -> bool:
    try:
        return attributes(path) == new
    except OSError:
        return False


def _overwrite(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # Cut off at the end, where that changes nothing on the disk; not before, when it would all be freed and taken again.
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
