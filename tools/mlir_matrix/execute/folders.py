"""Folders of actions: make them, fill them with request and inputs, and take the outputs out.

Each process gets a new folder with new files. Reusing those of earlier ones, after a comparison of mode, owner, ACLs, flags and
more, was slower: cold runs of smoke (2,292 actions, medians of four in turns) took 73.7 CPU seconds with it, 68.5 without.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType

from mlir_matrix.actions.contract import INPUT_FOLDER, OUTPUT_FOLDER
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import REQUEST_FILE, SCARCE
from mlir_matrix.actions.runtime.collect import metrics_of, outcome_of
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import DiskFullError
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import megabytes
from mlir_matrix.environments.state import MAKE_ROOM, free_bytes
from mlir_matrix.execute.action_cache import ActionCache, Result, read_bytes, write_bytes
from mlir_matrix.execute.keys import Read, request
from mlir_matrix.execute.large_files import LARGE, DifferentBytesError, copy_file
from mlir_matrix.plan.graph import PlannedAction

_serial = count(1)


@dataclass(frozen=True, slots=True)
class Prepared:
    """An action with its key and its inputs."""

    key: str
    action: PlannedAction
    reads: Sequence[Read]


def check_room(home: Home, action: PlannedAction, outcome: Mapping[str, str]) -> None:
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


def make_folder(scratch: Path) -> str:
    """Create a folder for actions. It contains only empty folders for inputs and outputs."""
    folder = f"{scratch}/{next(_serial)}"
    for path in (folder, f"{folder}/{INPUT_FOLDER}", f"{folder}/{OUTPUT_FOLDER}"):
        os.mkdir(path, 0o755)
    return folder


def fill_folder(
    folder: str, prepared: Prepared, store: ActionCache, copies: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write the request and copies of the inputs. An action may change its copies, never the originals.

    ``copies``: of large inputs, by their path in the folder. Raise LostBlob, ChangedSource, or OSError if the machine fails.
    """
    for read in prepared.reads:
        if read.path in copies:
            os.rename(copies[read.path], f"{folder}/{read.path}")
            continue
        data = store.read_blob(read.digest) if read.file is None else _source_bytes(read.file, read.digest)
        write_bytes(f"{folder}/{read.path}", data)
    wanted = request(prepared.action, {read.name: read.path for read in prepared.reads})
    content = json.dumps(wanted, sort_keys=True).encode()
    write_bytes(f"{folder}/{REQUEST_FILE}", content)


def empty_folder(folder: str) -> None:
    """Remove all files from the folder of an action that is done. Raise OSError if it has other folders or links for folders."""
    kept = [INPUT_FOLDER, OUTPUT_FOLDER]
    for path in (folder, *(f"{folder}/{name}" for name in kept)):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in os.listdir(descriptor):
                if path != folder or name not in kept:
                    os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)


class ChangedSource(OSError):
    """A source file has changed since the key of its action was computed."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path.name} changed during the run; run it again")


def _source_bytes(path: Path, digest: str) -> bytes:
    data = read_bytes(str(path))
    if digest_bytes(data) != digest:
        raise ChangedSource(path)
    return data


def large_inputs(prepared: Prepared, store: ActionCache) -> list[Read]:
    """Return the inputs of an action to copy in a thread."""
    return [
        read
        for read in prepared.reads
        if (store.is_large(read.digest) if read.file is None else os.stat(read.file).st_size > LARGE)
    ]


def copy_inputs(reads: Sequence[Read], scratch: Path, store: ActionCache, stop: threading.Event) -> dict[str, str]:
    """Copy large inputs into the scratch folder, for :func:`fill_folder`. Raise LostBlob, ChangedSource or OSError."""
    copies: dict[str, str] = {}
    try:
        for read in reads:
            copy = f"{scratch}/copy-{next(_serial)}"
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


def large_outputs(folder: str, action: PlannedAction) -> list[str]:
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
    """Hash the large outputs of an action that is done, for :func:`collect`."""
    for path in paths:
        store.hash_large(_plain(path, folder, stop), stop)


def collect(folder: str, action: PlannedAction, usage: Mapping[str, float], store: ActionCache) -> Result:
    """Read the outcome and move the outputs into the store. Raise DamagedFolderError, or OSError if the machine fails."""
    outcome = outcome_of(folder, action.stage, action.outputs)
    ok = outcome["outcome"] == "ok"
    files = action.outputs.items() if ok else ()
    outputs = {name: store.take_file(_plain(f"{folder}/{OUTPUT_FOLDER}/{path}", folder)) for name, path in files}
    return Result(outcome=outcome, outputs=outputs, usage=usage, metrics=metrics_of(folder, ok=ok))


def _plain(path: str, folder: str, stop: threading.Event | None = None) -> str:
    """Replace an output by a copy of its bytes if it has more names, extended attributes or special mode bits."""
    found = os.lstat(path)
    if found.st_nlink > 1 or found.st_mode & 0o7002 or has_attributes(path):
        # Not in the folder itself: it may have a default ACL.
        copy_file(path, f"{folder}.copy", None, stop)
        os.replace(f"{folder}.copy", path)
    return path


def extended_attributes(descriptor: int) -> list[tuple[str, bytes]]:
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
        return any(not name.startswith("security.") for name, _ in extended_attributes(descriptor))
    finally:
        os.close(descriptor)
