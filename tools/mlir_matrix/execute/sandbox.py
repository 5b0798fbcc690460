"""An action's folder: made with its request and inputs, emptied of its outputs afterwards."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.child import OUTCOME_FILE, REQUEST_FILE, failed_outcome, failure, open_plain, read_log
from mlir_matrix.digest import digest_bytes
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.execute.keys import INPUT_FOLDER, OUTPUT_FOLDER, Read, request
from mlir_matrix.execute.spare import SpareFiles
from mlir_matrix.execute.store import Result, Store, read_bytes, remove_folder
from mlir_matrix.home import Home
from mlir_matrix.plan.graph import Action

#: Verdicts about the moment, not about the code: never kept.
NEVER_CACHED = frozenset({"timed-out", "infra-error", "skipped"})
#: Bytes of an outcome or of metrics that are read; what is longer is then broken JSON.
_MOST_JSON = 4 << 20
_OUTCOME_KEYS = ("outcome", "stage", "reason", "diagnostics", "signal", "kept")


@dataclass(frozen=True, slots=True)
class Prepared:
    """An action with everything it reads at hand: ready to be sent to a worker."""

    key: str
    action: Action
    reads: Sequence[Read]

    @property
    def request(self) -> dict[str, Any]:
        """The request file."""
        return request(self.action, {read.name: read.path for read in self.reads})


def make_scratch(home: Home) -> Path:
    """A new folder for the folders of this run's actions; those of runs that were killed are removed."""
    _sweep(home.scratch)
    scratch = home.scratch / f"{os.getpid()}-{time.monotonic_ns()}"
    try:
        scratch.mkdir(parents=True)
        home.packages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfrastructureError(f"the folder for running actions cannot be made: {error}") from error
    return scratch


def _sweep(scratch: Path) -> None:
    """Remove the folders of runs that were killed: those whose process is gone."""
    try:
        names = os.listdir(scratch)
    except FileNotFoundError:
        return
    for name in names:
        owner = name.split("-", 1)[0]
        if not (owner.isdigit() and os.path.exists(f"/proc/{owner}")):
            remove_folder(scratch / name)


class Folders:
    """Folders for actions, used again: to make one and to remove it may take longer than a small action does."""

    _INSIDE = (INPUT_FOLDER, OUTPUT_FOLDER)

    def __init__(self, base: Path) -> None:
        self._base = str(base)
        self.spare = SpareFiles(f"{base}/spare")
        self._free: list[str] = []
        self._serial = 0
        self._mode = 0

    def take(self) -> str:
        """An empty folder, with empty folders for inputs and outputs in it."""
        if self._free:
            return self._free.pop()
        self._serial += 1
        folder = f"{self._base}/{self._serial}"
        for path in (folder, *(f"{folder}/{name}" for name in self._INSIDE)):
            os.mkdir(path, 0o755)
        self._mode = os.lstat(folder).st_mode
        return folder

    def fill(self, folder: str, prepared: Prepared, store: Store) -> None:
        """Lay out the request and copies of the inputs: an action may spoil its own copies, never the originals.

        Raises LostBlob and ChangedSource, and any other OSError where the machine fails.
        """
        for read in prepared.reads:
            data = store.read_blob(read.digest) if read.file is None else _source_bytes(read.file, read.digest)
            self.spare.write(f"{folder}/{read.path}", data)
        self.spare.write(f"{folder}/{REQUEST_FILE}", json.dumps(prepared.request, sort_keys=True).encode())

    def give_back(self, folder: str) -> None:
        """Take a folder back from an action that has ended. One that is not what it was is thrown away."""
        if self.empty(folder):
            self._free.append(folder)
        else:
            remove_folder(folder)

    def empty(self, folder: str) -> bool:
        """Take all files out of a folder; False where it is not, then, as it was when it was new."""
        try:
            return self._clean(folder, self._INSIDE) and all(self._clean(f"{folder}/{it}") for it in self._INSIDE)
        except OSError:
            return False

    def _clean(self, folder: str, inside: Sequence[str] = ()) -> bool:
        """Take the files out of a folder; False where that is not all it takes."""
        if os.lstat(folder).st_mode != self._mode:
            return False
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    self.spare.discard(entry.path)
                elif entry.name not in inside:
                    return False
        return True


class ChangedSource(OSError):
    """A source file is not what it was when the action's key was made of it."""


def _source_bytes(path: Path, digest: str) -> bytes:
    data = read_bytes(str(path))
    if digest_bytes(data) != digest:
        raise ChangedSource(f"{path.name} changed while the run was going on; run it again")
    return data


def collect(folder: str, action: Action, usage: Mapping[str, float], store: Store) -> Result:
    """Read the outcome and move the outputs into the store.

    The folder is what a stranger's code left: nothing in it is followed, waited for or believed unchecked. An OSError
    is the machine's.
    """
    outcome = _read_outcome(folder, action)
    if outcome["outcome"] == "ok" and (odd := _odd_output(folder, action)):
        outcome = _unfit(folder, action, f"it said that it was done, but {odd}")
    if outcome["outcome"] != "ok":
        return Result(outcome=outcome, usage=usage, metrics={"log": read_log(folder)})
    outputs = {name: store.take_file(f"{folder}/{OUTPUT_FOLDER}/{path}") for name, path in action.outputs.items()}
    return Result(outcome=outcome, outputs=outputs, usage=usage, metrics=_read_metrics(folder))


def is_kept(outcome: Mapping[str, str]) -> bool:
    """Whether an outcome is about the code and not about the moment. Who sent a SIGKILL is not known for sure."""
    unsure = outcome.get("signal") == "SIGKILL" or outcome.get("kept") == "no"
    return outcome["outcome"] not in NEVER_CACHED and not unsure


def _read_outcome(folder: str, action: Action) -> dict[str, str]:
    try:
        outcome = _read_json(f"{folder}/{OUTCOME_FILE}")
    except (OSError, ValueError, RecursionError) as error:
        why = "left none" if isinstance(error, FileNotFoundError) else "left one that cannot be read"
        return _unfit(folder, action, f"it {why} (its outcome is missing)")
    possible = {"ok", "crashed", "timed-out", "infra-error", failed_outcome(action.stage)}
    if str(outcome.get("outcome")) not in possible or outcome.get("stage") != action.stage:
        return _unfit(folder, action, "it claims an outcome that this action cannot have")
    return {name: value for name in _OUTCOME_KEYS if isinstance(value := outcome.get(name), str)}


def _unfit(folder: str, action: Action, reason: str) -> dict[str, str]:
    return failure(action.stage, failed_outcome(action.stage), reason, read_log(folder))


def _odd_output(folder: str, action: Action) -> str:
    """What is wrong with the files that an action says it wrote; empty where nothing is."""
    if not _has_type(f"{folder}/{OUTPUT_FOLDER}", stat.S_ISDIR):
        return f"the folder {OUTPUT_FOLDER} is gone"
    odd = [path for path in action.outputs.values() if not _has_type(f"{folder}/{OUTPUT_FOLDER}/{path}", stat.S_ISREG)]
    return f"{odd[0]} is missing or no plain file" if odd else ""


def _has_type(path: str, is_type: Callable[[int], bool]) -> bool:
    """Whether a path itself, not what it may link to, is of a type."""
    try:
        return is_type(os.lstat(path).st_mode)
    except OSError:
        return False


def _read_metrics(folder: str) -> dict[str, Any]:
    try:
        return _read_json(f"{folder}/metrics.json")
    except (OSError, ValueError, RecursionError):
        return {}


def _read_json(path: str) -> dict[str, Any]:
    """A small JSON object. Raises OSError, ValueError, RecursionError."""
    with open_plain(path) as file:
        value = json.loads(file.read(_MOST_JSON))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
