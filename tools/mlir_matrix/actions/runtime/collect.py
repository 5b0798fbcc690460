"""Read what an action left in its folder: outcome, outputs, metrics.

Code under test wrote the folder. So this module follows no links, reads no pipes, and checks everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from mlir_matrix.actions.contract import METRICS, OUTPUT_FOLDER
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import OUTCOME_FILE, failed_outcome, failure, open_plain, read_log

#: Outcomes that depend on the moment and not on the code. They are never cached.
NEVER_CACHED = frozenset({Outcome.TIMED_OUT, Outcome.INFRA_ERROR, Outcome.SKIPPED})
#: Bytes of an outcome or of metrics to read. A longer file then fails as invalid JSON.
_MOST_JSON = 4 << 20
_SIGNAL = re.compile(r"[A-Za-z0-9 +]{1,20}")
_OUTCOME_KEYS = ("outcome", "stage", "reason", "diagnostics", "signal", "cache")


class DamagedFolderError(Exception):
    """The folder of an action is damaged. ``outcome`` is the outcome of the action if a second attempt fails too."""

    def __init__(self, outcome: dict[str, str]) -> None:
        super().__init__(outcome["reason"])
        self.outcome = outcome


def outcome_of(folder: str, stage: str, outputs: Mapping[str, str]) -> dict[str, str]:
    """Return the outcome of an action. ``outputs`` are the paths, below ``out``, that it must have written.

    Raise DamagedFolderError if its files cannot be read, or contradict the outcome.
    """
    outcome = _read_outcome(folder, stage)
    if outcome["outcome"] == "ok" and (odd := _odd_output(folder, outputs)):
        raise damaged(folder, stage, f"the worker reported success, but {odd}")
    if outcome.get("cache") == "retry":
        raise DamagedFolderError(outcome)
    return outcome


def damaged(folder: str, stage: str, reason: str) -> DamagedFolderError:
    """Return the error for a damaged folder."""
    return DamagedFolderError(failure(stage, failed_outcome(stage), reason, read_log(folder), cache="no"))


def read_failure(folder: str) -> dict[str, str] | None:
    """Return the failure that an action wrote; None if it wrote something else."""
    try:
        found = read_json(f"{folder}/{OUTCOME_FILE}")
    except (OSError, ValueError, RecursionError):
        return None
    sound = all(isinstance(found.get(name), str) for name in ("outcome", "stage", "reason", "diagnostics"))
    return _as_our_own(found) if sound and found["outcome"] != "ok" else None


def is_measurable(verdict: Mapping[str, Any]) -> bool:
    """Return whether the judge could compare every output."""
    return all(output.get("measurable", True) for output in verdict["outputs"])


def may_be_cached(outcome: Mapping[str, str]) -> bool:
    """Return whether to cache an outcome. SIGKILL is not cached, because its sender is unknown."""
    unsure = outcome.get("signal") == "SIGKILL" or "cache" in outcome
    return outcome["outcome"] not in NEVER_CACHED and not unsure


def metrics_of(folder: str, *, ok: bool) -> dict[str, Any]:
    """Return the metrics of an action; of a failed action, its log, commands and the scaling of its program."""
    try:
        found = read_json(f"{folder}/{METRICS}")
    except (OSError, ValueError, RecursionError):
        found = {}
    if ok:
        return found
    return {"log": read_log(folder)} | {name: found[name] for name in ("commands", "scaled", "device") if name in found}


def remove_folder(folder: str) -> None:
    """Remove the folder of an action, at any depth. Ignore errors.

    Move nested folders up and then empty them: so no path exceeds the limit of the file system, and nothing recurses.
    """
    serial = count()
    with contextlib.suppress(OSError):
        while inside := _empty(folder):
            for inner in inside:
                os.chmod(inner.path, 0o700)
                for entry in _empty(inner.path):
                    os.chmod(entry.path, 0o700)
                    os.rename(entry.path, f"{folder}/.moved-{next(serial)}")
                os.rmdir(inner.path)
        os.rmdir(folder)


def _empty(folder: str) -> list[os.DirEntry[str]]:
    """Remove the files of a folder; return its folders."""
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not _remove(entry)]


def _remove(entry: os.DirEntry[str]) -> bool:
    """Remove a file; return False for a folder."""
    if entry.is_dir(follow_symlinks=False):
        return False
    os.unlink(entry.path)
    return True


def read_json(path: str) -> dict[str, Any]:
    """Return a small JSON object. Raise OSError, ValueError, RecursionError."""
    with open_plain(path) as file:
        value = json.loads(file.read(_MOST_JSON))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _read_outcome(folder: str, stage: str) -> dict[str, str]:
    try:
        outcome = read_json(f"{folder}/{OUTCOME_FILE}")
    except (OSError, ValueError, RecursionError) as error:
        why = "wrote no outcome" if isinstance(error, FileNotFoundError) else "left an outcome that cannot be read"
        raise damaged(folder, stage, f"the action {why}") from error
    possible = {"ok", Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.INFRA_ERROR, failed_outcome(stage)}
    if str(outcome.get("outcome")) not in possible or outcome.get("stage") != stage:
        raise damaged(folder, stage, "the action claims an outcome that it cannot have")
    return _as_our_own({name: value for name in _OUTCOME_KEYS if isinstance(value := outcome.get(name), str)})


def _as_our_own(outcome: Mapping[str, str]) -> dict[str, str]:
    """Return an outcome whose texts are safe to print. The action may have written the file itself."""
    if outcome["outcome"] == "ok":
        return {"outcome": "ok", "stage": outcome["stage"]}
    more = {"signal": outcome["signal"]} if _SIGNAL.fullmatch(outcome.get("signal", "")) else {}
    if "cache" in outcome:
        more["cache"] = "retry" if outcome["cache"] == "retry" else "no"
    texts = (outcome.get("reason", ""), outcome.get("diagnostics", ""))
    return failure(outcome["stage"], outcome["outcome"], *texts, **more)


def _odd_output(folder: str, outputs: Mapping[str, str]) -> str:
    """Return what is wrong with the output files of an action; empty if nothing is."""
    if not _has_type(f"{folder}/{OUTPUT_FOLDER}", stat.S_ISDIR):
        return f"the folder {OUTPUT_FOLDER} is missing"
    for path in outputs.values():
        place = f"{folder}/{OUTPUT_FOLDER}/{path}"
        if not _has_type(place, stat.S_ISREG):
            return f"{path} is missing or no plain file"
        if not os.access(place, os.R_OK):
            return f"{path} cannot be read"
    return ""


def _has_type(path: str, is_type: Callable[[int], bool]) -> bool:
    """Return whether a path itself, not the target of a link, is of a type."""
    try:
        return is_type(os.lstat(path).st_mode)
    except OSError:
        return False
