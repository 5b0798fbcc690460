"""Print the IR after each pass of a step.

params   as of ``passes``
inputs   as of ``passes``
outputs  ``printed``: the IR after each pass, in order, each below MLIR's own line with the name of the pass; ``problem``: why a
         pass failed, or nothing

The passes run in a process of their own: what was printed before a crash is the result.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import NoReturn

from mlir_matrix.actions.contract import Action, ActionCrashed, ActionFailed, MachineFailed, signal_name
from mlir_matrix.actions.mlir import backend
from mlir_matrix.actions.params import PassesParams
from mlir_matrix.actions.tools.passes import companion

preload = backend.preload

_FOLDER = "printed"
_PROBLEM = "problem.txt"
#: Exit code of the process of the passes if neither they nor the compiler are to blame.
_NO_RESULT = 70
#: What MLIR begins the name of a file with: the place of the pass in its pipeline, from the outermost one.
_PLACE = re.compile(r"\d+(?:_\d+)*")


def run(action: Action[PassesParams]) -> None:
    """Run the passes, and write what MLIR printed. Raise MachineFailed if they could not run."""
    child = os.fork()
    if child == 0:
        _run_passes(action)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    problem = Path(_PROBLEM).read_text(encoding="utf-8") if os.path.exists(_PROBLEM) else ""
    if code in (_NO_RESULT, -signal.SIGKILL):
        raise MachineFailed(problem or "the process of the passes was killed; it may have had too little memory")
    if code < 0:
        problem = f"crashed with {signal_name(-code)}\n"
    elif code > 0:
        problem = f"the compiler ended its process with exit code {code}\n"
    files = sorted((path for path in Path(_FOLDER).rglob("*") if path.is_file()), key=_order)
    printed = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    Path(action.outputs["printed"]).write_text(printed, encoding="utf-8")
    Path(action.outputs["problem"]).write_text(problem, encoding="utf-8")


def _run_passes(action: Action[PassesParams]) -> NoReturn:
    """Run the passes, which print into a folder, and end this process."""
    code = _NO_RESULT
    try:
        schedule, patterns = (companion(action, name) for name in ("schedule", "patterns"))
        tool = backend.backend_of(action)
        inside = Action(params=action.params, inputs=action.inputs, outputs={"ir": "passes.mlir"})
        tool.transform(inside, action.params["passes"], schedule=schedule, patterns=patterns, printed=_FOLDER)
        code = 0
    except (ActionFailed, ActionCrashed) as error:
        Path(_PROBLEM).write_text(f"{error}\n{error.diagnostics}", encoding="utf-8")
        code = 0
    except Exception as error:  # noqa: BLE001 - the parent raises it
        Path(_PROBLEM).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
    finally:
        os._exit(code)


def _order(file: Path) -> tuple[list[int], str]:
    place = _PLACE.match(file.name)
    return [int(number) for number in place[0].split("_")] if place else [], str(file)
