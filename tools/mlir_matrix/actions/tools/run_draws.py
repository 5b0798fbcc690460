"""Calls a kernel on several draws of its arguments, one after the other; a call that fails ends nothing but itself.

params   as of ``run``, without ``repeat``; ``draws``: the numbers of the draws
inputs   ``kernel``; ``arg-DRAW-NAME``: an .npy file for each argument of each draw
outputs  ``out-DRAW-NAME``: an .npy file for each result of each draw, without any bytes where the call failed; ``failures``:
         JSON, by draw, the reason why its call failed
"""

from __future__ import annotations

import json
from pathlib import Path

from mlir_matrix.actions.runtime.contract import Action, ActionCrashed, ActionFailed
from mlir_matrix.actions.tools import run as single


def run(action: Action) -> None:
    """An OSError or MachineFailed is the machine's; what is wrong with the kernel is written down."""
    failures: dict[str, str] = {}
    for draw in action.params["draws"]:
        try:
            single.run(_of_draw(action, draw))
        except ActionFailed as error:
            failures[str(draw)] = f"run-failed: {error.reason}"
        except ActionCrashed as error:
            failures[str(draw)] = f"crashed: {error}"
        if str(draw) in failures:
            for result in action.params["results"]:
                Path(action.outputs[f"out-{draw}-{result['name']}"]).write_bytes(b"")
    Path(action.outputs["failures"]).write_text(json.dumps(failures, sort_keys=True) + "\n", encoding="utf-8")


def _of_draw(action: Action, draw: int) -> Action:
    """What ``run`` is told of one draw."""
    params = action.params
    return Action(
        params=params,
        inputs={
            "kernel": action.inputs["kernel"],
            **{f"arg-{each['name']}": action.inputs[f"arg-{draw}-{each['name']}"] for each in params["arguments"]},
        },
        outputs={f"out-{each['name']}": action.outputs[f"out-{draw}-{each['name']}"] for each in params["results"]},
    )
