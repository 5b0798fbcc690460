"""Run several actions one after the other in one process and one folder: the tries of a reduction.

params   ``actions``: requests, as they stand in ``action.json``; each reads what those before it wrote
outputs  those of the last action

Nothing is cached between them. The file ``begun`` has a byte for each action that has begun, also if a signal ends the process.
"""

from __future__ import annotations

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.params import FusedParams
from mlir_matrix.actions.runtime.child import tool_named

#: The file whose size is the number of actions that have begun.
BEGUN = "begun"


def run(action: Action[FusedParams]) -> None:
    """Run the actions until one fails. Raise what it raises."""
    for each in action.params["actions"]:
        with open(BEGUN, "ab") as file:
            file.write(b".")
        tool_named(each["tool"]).run(Action(params=each["params"], inputs=each["inputs"], outputs=each["outputs"]))
