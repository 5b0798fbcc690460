"""The verdict of a step's IR test: what the step made of the test's IR, against the test's own ``CHECK`` lines.

Inputs: ``ir``, the step's output, and ``test``, the test file (input IR with its directives). Output: ``report``, JSON
with the number of directives that were checked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from mlir_matrix.actions import check
from mlir_matrix.actions.contract import Action

preload = check.preload

_DIRECTIVE = re.compile(r"//\s*CHECK(?:-[A-Z]+)*(?:\{[A-Z,]+\})?:")


def run(action: Action) -> None:
    """Write the report, or raise ActionFailed with what FileCheck found (also for a test without directives)."""
    ir, test = Path(action.inputs["ir"]), Path(action.inputs["test"])
    check.require(ir, test)
    directives = len(_DIRECTIVE.findall(test.read_text(encoding="utf-8")))
    Path(action.outputs["report"]).write_text(json.dumps({"directives": directives}) + "\n", encoding="utf-8")
