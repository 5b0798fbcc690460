"""One action in a process of its own: read the request, run the tool, write the outcome.

The outcome file is the action's verdict about itself: ``ok``, or why not. Failures of the code under test are values
that are kept like any other output, so their text must repeat: addresses are scrubbed, paths are relative.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, ActionCrashed, ActionFailed, MachineFailed

REQUEST_FILE = "action.json"
OUTCOME_FILE = "outcome.json"
LOG_FILE = "log.txt"

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}\b")
_FRAME = re.compile(r'File "([^"]+)"')
_LONGEST = 200_000
#: Errors of the machine rather than of what an action was given.
_MACHINE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENFILE})


def failure(stage: str, outcome: str, reason: str, diagnostics: str = "", **more: str) -> dict[str, str]:
    """An outcome other than ``ok``, with what a person needs, and nothing in it that changes from run to run."""
    text = _ADDRESS.sub("0x…", diagnostics)
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "\n… (cut)"
    return {"outcome": outcome, "stage": stage, "reason": _ADDRESS.sub("0x…", reason), "diagnostics": text, **more}


def failed_outcome(stage: str) -> str:
    """The outcome word for «ran and failed» at a stage; a judge that raises found no match."""
    return "mismatch" if stage == "judge" else f"{stage}-failed"


def crash(stage: str, signal_name: str, diagnostics: str) -> dict[str, str]:
    """The outcome of a process that was ended by a signal it caused."""
    return failure(stage, "crashed", f"{signal_name} while at stage {stage}", diagnostics, signal=signal_name)


def write_outcome(folder: str, outcome: Mapping[str, Any]) -> None:
    """Put the outcome file in place in one step, so that a half-written one is never read."""
    temporary = os.path.join(folder, OUTCOME_FILE + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(outcome, file, sort_keys=True, ensure_ascii=False)
    os.replace(temporary, os.path.join(folder, OUTCOME_FILE))


def read_log(folder: str, limit: int = 20_000) -> str:
    """The last ``limit`` bytes of what the action printed."""
    try:
        with open(os.path.join(folder, LOG_FILE), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def perform(request: Mapping[str, Any]) -> dict[str, str]:
    """Run the tool that the request names, in the current folder, and say how it went."""
    stage = str(request["stage"])
    action = Action(params=request["params"], inputs=request["inputs"], outputs=request["outputs"])
    for path in action.outputs.values():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        tool = importlib.import_module(f"mlir_matrix.actions.{request['tool']}")
        tool.run(action)
    except ActionFailed as failed:
        return failure(stage, failed_outcome(stage), failed.reason, failed.diagnostics)
    except ActionCrashed as crashed:
        return crash(stage, crashed.signal, crashed.diagnostics)
    except MachineFailed as failed:
        return failure(stage, "infra-error", str(failed))
    except OSError as error:
        if error.errno in _MACHINE_ERRORS:
            return failure(stage, "infra-error", f"the machine failed: {error.strerror}")
        return failure(stage, failed_outcome(stage), _first_line(error), _trace(error))
    except MemoryError as error:
        return failure(stage, failed_outcome(stage), "out of memory within the action's limit", _trace(error))
    except BaseException as error:  # noqa: BLE001 - whatever a stranger's source raises is its own outcome
        return failure(stage, failed_outcome(stage), _first_line(error), _trace(error))
    missing = [name for name, path in action.outputs.items() if not os.path.isfile(path)]
    if missing:
        return failure(stage, failed_outcome(stage), f"the tool {request['tool']} did not write {', '.join(missing)}")
    return {"outcome": "ok", "stage": stage}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    name = type(error).__name__
    return f"{name}: {text[:300]}" if text else name


def _trace(error: BaseException) -> str:
    """The traceback without the folders of this machine, so that it is the same text everywhere."""

    def shorten(match: re.Match[str]) -> str:
        parts = match.group(1).replace("\\", "/").split("/")
        for anchor in ("site-packages", "lib", "mlir_matrix"):
            if anchor in parts:
                return f'File "{"/".join(parts[parts.index(anchor) :])}"'
        return f'File "{"/".join(parts[-2:])}"' if match.group(1).startswith("/") else match.group(0)

    return _FRAME.sub(shorten, "".join(traceback.format_exception(error)))
