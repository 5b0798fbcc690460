"""An action's folder: made with its request and inputs, emptied of its outputs afterwards."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.child import LOG_FILE, OUTCOME_FILE, REQUEST_FILE
from mlir_matrix.execute.keys import OUTPUT_FOLDER, request
from mlir_matrix.execute.store import Result, Store
from mlir_matrix.plan.graph import Action

#: Verdicts about the moment, not about the code: never kept.
NEVER_CACHED = frozenset({"timed-out", "infra-error", "skipped"})
_LOG_BYTES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An action with everything it reads at hand: ready to be sent to a worker."""

    key: str
    action: Action
    #: Input name to its path in the action's folder.
    names: Mapping[str, str]
    #: Input name to a path of this machine (a source file) or the digest of a blob.
    sources: Mapping[str, Path | str]

    @property
    def request(self) -> dict[str, Any]:
        """The request file."""
        return request(self.action, self.names)


def make_folder(folder: str, prepared: Prepared, store: Store) -> None:
    """Lay out the request and copies of the inputs: an action may spoil its own copies, never the originals."""
    os.makedirs(folder + "/in")
    for name, path in prepared.names.items():
        source = prepared.sources[name]
        if isinstance(source, Path):
            shutil.copyfile(source, f"{folder}/{path}")
        else:
            with open(f"{folder}/{path}", "wb") as file:
                file.write(store.read_blob(source))
    with open(f"{folder}/{REQUEST_FILE}", "w", encoding="utf-8") as file:
        json.dump(prepared.request, file, sort_keys=True)


def collect(folder: str, action: Action, usage: Mapping[str, float], store: Store) -> Result:
    """Read the outcome, move the outputs into the store, and remove the folder."""
    try:
        with open(f"{folder}/{OUTCOME_FILE}", encoding="utf-8") as file:
            outcome = json.load(file)
        outputs = {}
        if outcome["outcome"] == "ok":
            outputs = {
                name: store.take_file(f"{folder}/{OUTPUT_FOLDER}/{path}") for name, path in action.outputs.items()
            }
            metrics = _read_metrics(folder)
        else:
            metrics = {"log": _read_tail(f"{folder}/{LOG_FILE}")}
        return Result(outcome=outcome, outputs=outputs, usage=usage, metrics=metrics)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_metrics(folder: str) -> dict[str, Any]:
    try:
        with open(f"{folder}/metrics.json", encoding="utf-8") as file:
            metrics = json.load(file)
    except (OSError, ValueError):
        return {}
    return metrics if isinstance(metrics, dict) else {}


def _read_tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
