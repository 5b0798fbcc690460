"""Run an action whose inputs and outputs are at the paths that Bazel gives them.

The request has one argument, the layout: a JSON object whose paths are relative to the request's folder::

    request    the request of the action (its ``action.json``)
    files      path of each input in the action's folder, and where the file is
    upstream   results of the actions that it waits for
    outputs    name of each output, and where to write it
    result     where to write ``{"outcome", "outputs": {name: SHA-256}}``, which is equal in each run
    ending     where to write how a test ends with this action, one line each: outcome, ``measurable`` or ``not``, reason;
               absent if no test ends with it
    usage      where to write times, memory and metrics, which differ between runs
    preload    modules that a worker imports before it runs the action
    building   whether it builds a library of this program, so that its failure is a failure of the machine
    timeout_s, memory_mb

Inputs are copied in and outputs are moved out: an action can change its copies, never the originals. A failure is a value: the
outputs are empty files, the result has the reason, and actions that wait for it inherit the failure. Only an outcome that must
not be cached (``timed-out``, failures of the machine) fails the command itself. The last line of its output is that outcome.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mlir_matrix.actions.contract import INPUT_FOLDER, OUTPUT_FOLDER
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.child import MACHINE_ERRORS, REQUEST_FILE, failure
from mlir_matrix.actions.runtime.collect import (
    DamagedFolderError,
    is_measurable,
    may_be_cached,
    metrics_of,
    outcome_of,
    read_json,
    remove_folder,
)

#: Starts the line with an outcome that must not be cached.
OUTCOME_MARK = "matrix-outcome: "


class Staged:
    """A request with a layout."""

    def __init__(self, layout: Mapping[str, Any], root: str) -> None:
        """``root`` is the folder that the layout's paths are relative to."""
        self._layout = layout
        self._root = root
        self._around = ""
        self.folder = ""
        self.timeout_s = float(layout["timeout_s"])
        self.memory_mb = int(layout["memory_mb"])
        self.stage = str(layout["request"]["stage"])

    def passed_on(self) -> bool:
        """Pass on the failure of an action that this one waits for. Return False if none has failed."""
        for path in self._layout["upstream"]:
            outcome = read_json(self._at(path))["outcome"]
            if outcome["outcome"] != "ok":
                self._deliver(outcome, {}, {})
                return True
        return False

    def open(self) -> None:
        """Create the action's folder with its request and its inputs. Raise OSError if the machine fails."""
        import shutil  # these imports and hashlib take 10 ms, and few workers get layouts
        import tempfile

        # In a separate folder, because isolation hides the folders beside it; near the result, where temporary files belong.
        place = os.path.dirname(self._at(self._layout["result"]))
        self._around = tempfile.mkdtemp(prefix="action-", dir=place)
        self.folder = f"{self._around}/action"
        for name in (INPUT_FOLDER, OUTPUT_FOLDER):
            os.makedirs(f"{self.folder}/{name}")
        for path, place in self._layout["files"].items():
            shutil.copyfile(self._at(place), f"{self.folder}/{path}")
        with open(f"{self.folder}/{REQUEST_FILE}", "w", encoding="utf-8") as file:
            json.dump(self._layout["request"], file, sort_keys=True)

    def close(self, usage: Mapping[str, float], trouble: str) -> str:
        """Write the results and remove the folder. Return the output of a command that fails, else an empty string.

        ``trouble`` is the failure of the machine, if any.
        """
        try:
            if trouble:
                return _told(failure(self.stage, Outcome.INFRA_ERROR, trouble))
            names = self._layout["request"]["outputs"]
            inside = {name: path.partition("/")[2] for name, path in names.items()}
            try:
                outcome = outcome_of(self.folder, self.stage, inside)
            except DamagedFolderError as error:
                outcome = error.outcome
            if outcome["outcome"] != "ok" and self._layout["building"]:
                outcome = {**outcome, "outcome": Outcome.INFRA_ERROR}
            if not may_be_cached(outcome):
                return _told(outcome)
            self._deliver(outcome, names, usage)
        except OSError as error:
            if error.errno in MACHINE_ERRORS:
                return _told(failure(self.stage, Outcome.INFRA_ERROR, f"the machine failed: {error.strerror}"))
            raise
        finally:
            remove_folder(self._around)
        return ""

    def _deliver(self, outcome: Mapping[str, str], made: Mapping[str, str], usage: Mapping[str, float]) -> None:
        """Write outputs, result and usage. ``made``: paths in the action's folder by output; empty after a failure."""
        import hashlib
        import shutil

        ok = outcome["outcome"] == "ok"
        digests = {}
        for name, place in self._layout["outputs"].items():
            destination = self._at(place)
            if ok:
                shutil.move(f"{self.folder}/{made[name]}", destination)
                if os.stat(destination).st_uid != os.geteuid():
                    # If the worker is root, the action runs as another user.
                    os.chown(destination, os.geteuid(), os.getegid())
                with open(destination, "rb") as file:
                    digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                open(destination, "wb").close()
        beside = {"usage": usage, "ended": time.time()}
        if made:
            beside["metrics"] = metrics_of(self.folder, ok=ok)
        self._write("result", {"outcome": outcome, "outputs": digests})
        if "ending" in self._layout:
            with open(self._at(self._layout["ending"]), "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in self._ending(outcome)))
        self._write("usage", beside)

    def _ending(self, outcome: Mapping[str, str]) -> Sequence[str]:
        ok = outcome["outcome"] == "ok"
        if not ok or "verdict" not in self._layout["outputs"]:
            # A check that can succeed in only one way, like FileCheck, writes no verdict.
            return "pass" if ok else outcome["outcome"], "measurable", " ".join(outcome.get("reason", "").split())
        verdict = read_json(self._at(self._layout["outputs"]["verdict"]))
        return (
            verdict["outcome"],
            "measurable" if is_measurable(verdict) else "not",
            " ".join(verdict["reason"].split()),
        )

    def _write(self, name: str, value: Mapping[str, object]) -> None:
        with open(self._at(self._layout[name]), "w", encoding="utf-8") as file:
            json.dump(value, file, sort_keys=True)

    def _at(self, path: str) -> str:
        return os.path.join(self._root, path)


def layout_of(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the layout in the arguments of a request, or in the file that they name; None for other arguments."""
    if len(arguments) != 1 or arguments[0][:1] not in ("{", "@"):
        return None
    text = arguments[0]
    if text[0] == "@":
        with open(text[1:], encoding="utf-8") as file:
            text = file.read()
    layout: dict[str, Any] = json.loads(text)
    return layout


def _told(outcome: Mapping[str, str]) -> str:
    return f"{outcome['reason']}\n{OUTCOME_MARK}{json.dumps(outcome, sort_keys=True)}"
