"""An action's folder: made with its request and inputs, emptied of its outputs afterwards."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.child import OUTCOME_FILE, REQUEST_FILE, failed_outcome, failure, open_plain, read_log
from mlir_matrix.digest import digest_bytes
from mlir_matrix.execute.keys import OUTPUT_FOLDER, request
from mlir_matrix.execute.store import Result, Store, remove_folder
from mlir_matrix.plan.graph import Action

#: Verdicts about the moment, not about the code: never kept.
NEVER_CACHED = frozenset({"timed-out", "infra-error", "skipped"})
#: Bytes of an outcome or of metrics that are read; what is longer is then broken JSON.
_MOST_JSON = 4 << 20
_OUTCOME_KEYS = ("outcome", "stage", "reason", "diagnostics", "signal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An action with everything it reads at hand: ready to be sent to a worker."""

    key: str
    action: Action
    #: Input name to its path in the action's folder.
    names: Mapping[str, str]
    #: Input name to a path of this machine (a source file) or the digest of a blob.
    sources: Mapping[str, Path | str]
    #: Input name to the digest of its bytes, of which the key is made.
    digests: Mapping[str, str]

    @property
    def request(self) -> dict[str, Any]:
        """The request file."""
        return request(self.action, self.names)


class ChangedSource(OSError):
    """A source file is not what it was when the action's key was made of it."""


def make_folder(folder: str, prepared: Prepared, store: Store) -> None:
    """Lay out the request and copies of the inputs: an action may spoil its own copies, never the originals.

    Raises LostBlob and ChangedSource, and any other OSError where the machine fails.
    """
    os.makedirs(folder + "/in")
    for name, path in prepared.names.items():
        source = prepared.sources[name]
        data = _source_bytes(source, prepared.digests[name]) if isinstance(source, Path) else store.read_blob(source)
        with open(f"{folder}/{path}", "wb") as file:
            file.write(data)
    with open(f"{folder}/{REQUEST_FILE}", "w", encoding="utf-8") as file:
        json.dump(prepared.request, file, sort_keys=True)


def _source_bytes(path: Path, digest: str) -> bytes:
    data = path.read_bytes()
    if digest_bytes(data) != digest:
        raise ChangedSource(f"{path.name} changed while the run was going on; run it again")
    return data


def collect(folder: str, action: Action, usage: Mapping[str, float], store: Store) -> Result:
    """Read the outcome, move the outputs into the store, and remove the folder.

    The folder is what a stranger's code left: nothing in it is followed, waited for or believed unchecked. An OSError
    is the machine's.
    """
    try:
        outcome = _read_outcome(folder, action)
        if outcome["outcome"] == "ok" and (odd := _odd_output(folder, action)):
            outcome = _unfit(folder, action, f"it said that it was done, but {odd}")
        if outcome["outcome"] != "ok":
            return Result(outcome=outcome, usage=usage, metrics={"log": read_log(folder)})
        outputs = {name: store.take_file(f"{folder}/{OUTPUT_FOLDER}/{path}") for name, path in action.outputs.items()}
        return Result(outcome=outcome, outputs=outputs, usage=usage, metrics=_read_metrics(folder))
    finally:
        remove_folder(folder)


def is_kept(outcome: Mapping[str, str]) -> bool:
    """Whether an outcome is about the code and not about the moment. Who sent a SIGKILL is not known for sure."""
    return outcome["outcome"] not in NEVER_CACHED and outcome.get("signal") != "SIGKILL"


def _read_outcome(folder: str, action: Action) -> dict[str, str]:
    try:
        outcome = _read_json(f"{folder}/{OUTCOME_FILE}")
    except (OSError, ValueError, RecursionError) as error:
        why = "left none" if isinstance(error, FileNotFoundError) else "left one that cannot be read"
        return _unfit(folder, action, f"it {why} (its outcome is missing)")
    possible = {"ok", "crashed", "timed-out", "infra-error", failed_outcome(action.stage)}
    if outcome.get("outcome") not in possible or outcome.get("stage") != action.stage:
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
