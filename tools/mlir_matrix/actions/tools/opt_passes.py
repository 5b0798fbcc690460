"""Run a pass pipeline on IR by ``mlir-opt`` of whatever release the environment has: what ``passes`` does by bindings.

Parameters: ``passes`` (the pipeline, without ``builtin.module(…)`` around it) and ``parameters`` (values for ``${name}`` in
the step's files). Inputs: ``ir``, text or bytecode; optionally ``schedule``, transform sequences that the pass
``transform-interpreter`` runs. Output: ``ir``, text.
"""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.runtime.template import fill

#: From here on a pipeline names what it is anchored to; before, that was the module and could not be said.
_ANCHORED = 16
_SCHEDULE = "schedule.mlir"


def run(action: Action) -> None:
    """Read ``ir``, run the passes, write ``ir``; ActionFailed carries the compiler's diagnostics."""
    passes = str(action.params["passes"])
    if "schedule" in action.inputs:
        text = read_text(action.inputs["schedule"], "the schedule")
        programs.write_scratch(_SCHEDULE, fill(text, action.params.get("parameters", {})))
        passes = f"transform-preload-library{{transform-library-paths={_SCHEDULE}}},{passes}"
    if not Path(action.inputs["ir"]).read_bytes().strip():
        raise ActionFailed("the IR is empty")
    optimise(action.inputs["ir"], passes, action.outputs["ir"])


def optimise(source: str, passes: str, target: str, *more: str) -> None:
    """Run passes from one file to another."""
    words = [source, *more]
    if passes:
        words.append(f"--pass-pipeline={anchored(passes)}")
    failure = "the passes failed" if passes else "the file does not parse"
    programs.call("mlir-opt", words, output=target, failure=failure)


def anchored(passes: str) -> str:
    """The pipeline as the release's ``--pass-pipeline`` takes it."""
    return passes if programs.before("mlir-opt", _ANCHORED) else f"builtin.module({passes})"
