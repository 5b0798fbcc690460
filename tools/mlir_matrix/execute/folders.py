"""Folders of actions: fill them with request and inputs, take the outputs out, and reuse them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType

from mlir_matrix.actions.contract import INPUT_FOLDER, OUTPUT_FOLDER
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import REQUEST_FILE, SCARCE
from mlir_matrix.actions.runtime.collect import metrics_of, outcome_of, remove_folder
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import DiskFullError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import megabytes
from mlir_matrix.environments.state import MAKE_ROOM, free_bytes
from mlir_matrix.execute.action_cache import ActionCache, Result, read_bytes, write_bytes
from mlir_matrix.execute.keys import Read, request
from mlir_matrix.execute.large_files import LARGE, DifferentBytesError, copy_file, write_all
from mlir_matrix.plan.graph import Action

_copies = count()
#: Largest size and number of reusable files. A run writes far fewer between two finished actions.
_SMALL = 1 << 16
_MOST = 1000
#: ``_IOR('f', 1, long)``: immutable, append-only, encrypted, and more. ``_IOR('X', 31, struct fsxattr)``: also the project.
_FS_IOC_GETFLAGS, _FS_IOC_FSGETXATTR = 0x80086601, 0x801C581F
#: Metadata of a file or folder without size and times.
Attributes = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """An action with its key and its inputs."""

    key: str
    action: Action
    reads: Sequence[Read]


def new_scratch(home: Home) -> Path:
    """Return a path for the scratch folder of a run, without creating it."""
    return home.scratch / f"{os.getpid()}-{time.monotonic_ns()}"


def make_scratch(scratch: Path, home: Home) -> Path:
    """Create the scratch folder of a run, and remove those of killed runs. Raise InfrastructureError."""
    for folder in dead_scratch(home):
        remove_folder(folder)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        home.packages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable("the scratch folder cannot be created", error) from error
    return scratch


def check_room(home: Home, action: Action, outcome: Mapping[str, str]) -> None:
    """Raise DiskFullError if this machine could not execute an action, and the disk of the action cache is full.

    The folder of the action is removed before: one that needs more than the disk has does not end the others.
    """
    if outcome["outcome"] != Outcome.INFRA_ERROR:
        return
    free = free_bytes(home.actions)
    if free < SCARCE:
        raise DiskFullError(
            f"{action.id}: {outcome['reason']}; the disk of {home.actions} has {free / 1e6:.1f} MB free, "
            f"and a run needs at least {megabytes(SCARCE)}; {MAKE_ROOM}"
        )


def dead_scratch(home: Home) -> list[str]:
    """Return the scratch folders whose process has ended."""
    try:
        names = os.listdir(home.scratch)
    except FileNotFoundError:
        return []
    owners = {name: name.split("-", 1)[0] for name in names}
    return [
        f"{home.scratch}/{name}"
        for name, owner in owners.items()
        if not (owner.isdigit() and os.path.exists(f"/proc/{owner}"))
    ]


class Folders:
    """Folders for actions. A folder is reused only if its attributes are the same as when it was filled.

    Creating and removing a folder may take longer than a small action.
    """

    _INSIDE = (INPUT_FOLDER, OUTPUT_FOLDER)

    def __init__(self, base: Path, files: FilePool) -> None:
        self._base = str(base)
        self._files = files
        self._free: list[str] = []
        self._serial = 0
        #: Attributes of each folder when it was filled.
        self._new: dict[str, Sequence[Attributes]] = {}

    def take(self) -> str:
        """Return a folder that contains only empty folders for inputs and outputs."""
        if self._free:
            return self._free.pop()
        self._serial += 1
        folder = f"{self._base}/{self._serial}"
        for path in self._paths(folder):
            os.mkdir(path, 0o755)
        return folder

    def fill(
        self, folder: str, prepared: Prepared, store: ActionCache, copies: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Write the request and copies of the inputs. An action may change its copies, never the originals.

        ``copies``: of large inputs, by their path in the folder. Raise LostBlob, ChangedSource, or OSError if the machine fails.
        """
        # Not in take(): the caller sets the owner between the two calls.
        self._new[folder] = self._look(folder)
        for read in prepared.reads:
            if read.path in copies:
                os.rename(copies[read.path], f"{folder}/{read.path}")
                continue
            data = store.read_blob(read.digest) if read.file is None else _source_bytes(read.file, read.digest)
            self._files.write(f"{folder}/{read.path}", data)
        wanted = request(prepared.action, {read.name: read.path for read in prepared.reads})
        content = json.dumps(wanted, sort_keys=True).encode()
        self._files.write(f"{folder}/{REQUEST_FILE}", content)

    def give_back(self, folder: str) -> None:
        """Take back the folder of an action that has ended. Remove it if its attributes have changed."""
        if self.empty(folder):
            self._free.append(folder)
        else:
            remove_folder(folder)

    def empty(self, folder: str, *, in_use: bool = False) -> bool:
        """Remove all files from a folder. Return False if its attributes have changed.

        ``in_use``: a process still runs in it, so its files are not reused.
        """
        discard = os.unlink if in_use else self._files.discard
        try:
            return (
                self._look(folder) == self._new.get(folder)
                and self._clear(folder, discard, self._INSIDE)
                and all(self._clear(f"{folder}/{name}", discard) for name in self._INSIDE)
            )
        except OSError:
            return False

    def _look(self, folder: str) -> Sequence[Attributes]:
        return [attributes(path, os.O_DIRECTORY) for path in self._paths(folder)]

    def _paths(self, folder: str) -> Sequence[str]:
        return folder, *(f"{folder}/{name}" for name in self._INSIDE)

    @staticmethod
    def _clear(folder: str, discard: Callable[[str], None], inside: Sequence[str] = ()) -> bool:
        """Remove the files from a folder. Return False if it holds other folders than ``inside``."""
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    discard(entry.path)
                elif entry.name not in inside:
                    return False
        return True


class ChangedSource(OSError):
    """A source file has changed since the key of its action was computed."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path.name} changed during the run; run it again")


def _source_bytes(path: Path, digest: str) -> bytes:
    data = read_bytes(str(path))
    if digest_bytes(data) != digest:
        raise ChangedSource(path)
    return data


def _plain(path: str, folder: str, stop: threading.Event | None = None) -> str:
    """Replace an output by a copy of its bytes if it has more names, extended attributes or special mode bits."""
    found = os.lstat(path)
    if found.st_nlink > 1 or found.st_mode & 0o7002 or has_attributes(path):
        # Not in the folder itself, which may have a default ACL.
        copy_file(path, f"{folder}.copy", None, stop)
        os.replace(f"{folder}.copy", path)
    return path


def large_inputs(prepared: Prepared, store: ActionCache) -> list[Read]:
    """Return the inputs of an action to copy in a thread."""
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
        raise ChangedSource(path) from None


def large_outputs(folder: str, action: Action) -> list[str]:
    """Return the paths of outputs to hash in a thread before :func:`collect`."""
    out = f"{folder}/{OUTPUT_FOLDER}"
    try:
        # A link might point to files of other users.
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
    """Read the outcome and move the outputs into the store. Raise DamagedFolderError, or OSError if the machine fails."""
    outcome = outcome_of(folder, action.stage, action.outputs)
    ok = outcome["outcome"] == "ok"
    files = action.outputs.items() if ok else ()
    outputs = {name: store.take_file(_plain(f"{folder}/{OUTPUT_FOLDER}/{path}", folder)) for name, path in files}
    return Result(outcome=outcome, outputs=outputs, usage=usage, metrics=metrics_of(folder, ok=ok))


class FilePool:
    """Overwrites small files that are no longer needed, instead of removing them and creating others.

    Creating a file costs more than filling it. After many removals, some file systems (ext4 without a journal) search for
    0.1 ms and more for a place. A run creates and drops several files per action. A file is reused only if it has the
    attributes of a new one; the check takes 0.01 ms.
    """

    def __init__(self, folder: str) -> None:
        """``folder`` contains unused files. It is created with the first one."""
        self._folder = folder
        self._free: list[str] = []
        self._serial = 0
        self._new: Attributes = ()

    def discard(self, path: str) -> None:
        """Remove a file of any type. Keep it for reuse if it is small and regular and has no other name."""
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
                # All in one folder: creating files in many folders is several times slower.
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
        # Bytes 8 to 12 are the number of extents, which depends on the content.
        return found.st_mode, found.st_uid, found.st_gid, _extended(descriptor), flags, more[:8], more[12:]
    finally:
        os.close(descriptor)


def _extended(descriptor: int) -> list[tuple[str, bytes]]:
    """Return extended attributes and ACLs; none on a file system without them."""
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
    """Return the answer of the file system, empty if it does not support the request."""
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
        # Not truncated before: that would free all blocks and allocate them again.
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
