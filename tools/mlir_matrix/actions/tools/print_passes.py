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

from mlir_matrix.actions.contract import Action, ActionCrashed, ActionFailed
from mlir_matrix.actions.mlir import backend
from mlir_matrix.actions.params import PassesParams
from mlir_matrix.actions.tools.passes import companion

preload = backend.preload

_FOLDER = "printed"
_PROBLEM = "problem.txt"
#: What MLIR begins the name of a file with: the place of the pass in its pipeline, from the outermost one.
_PLACE = re.compile(r"\d+(?:_\d+)*")


def run(action: Action[PassesParams]) -> None:
    """Run the passes, and write what MLIR printed."""
    child = os.fork()
    if child == 0:
        _run_passes(action)
    _, status = os.waitpid(child, 0)
    problem = ""
    if os.WIFSIGNALED(status):
        problem = f"crashed with {signal.Signals(os.WTERMSIG(status)).name}\n"
    elif os.path.exists(_PROBLEM):
        problem = Path(_PROBLEM).read_text(encoding="utf-8")
    files = sorted((path for path in Path(_FOLDER).rglob("*") if path.is_file()), key=_order)
    printed = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    Path(action.outputs["printed"]).write_text(printed, encoding="utf-8")
    Path(action.outputs["problem"]).write_text(problem, encoding="utf-8")


def _run_passes(action: Action[PassesParams]) -> None:
    """Run the passes, which print into a folder, and end this process."""
    try:
        schedule, patterns = (companion(action, name) for name in ("schedule", "patterns"))
        tool = backend.backend_of(action)
        inside = Action(params=action.params, inputs=action.inputs, outputs={"ir": "passes.mlir"})
        tool.transform(inside, action.params["passes"], schedule=schedule, patterns=patterns, printed=_FOLDER)
    except (ActionFailed, ActionCrashed) as error:
        Path(_PROBLEM).write_text(f"{error}\n{error.diagnostics}", encoding="utf-8")
    os._exit(0)


def _order(file: Path) -> tuple[list[int], str]:
    place = _PLACE.match(file.name)
    return [int(number) for number in place[0].split("_")] if place else [], str(file)
