"""Judge a step's IR test, or the artifact of a target that only compiles, by ``CHECK`` lines.

inputs   ``ir``: the step's output or the artifact, as text; ``test``: the file with the directives
outputs  ``report``: JSON, the number of ``directives``
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.params import NoParams
from mlir_matrix.actions.tools import check

preload = check.preload

_DIRECTIVE = re.compile(r"//\s*CHECK(?:-[A-Z]+)*(?:\{[A-Z,]+\})?:")
_POSITIVE = re.compile(r"//\s*CHECK(?:-(?:LABEL|SAME|NEXT|DAG|COUNT-\d+))?(?:\{[A-Z,]+\})?:")


def run(action: Action[NoParams]) -> None:
    """Write the report. Raise ActionFailed with FileCheck's report, also for a test without directives."""
    ir, test = Path(action.inputs["ir"]), Path(action.inputs["test"])
    read_text(action.inputs["ir"], "what FileCheck reads")
    check.require(ir, test)
    if not _POSITIVE.search(read_text(action.inputs["test"], "the test")):
        raise ActionFailed("no directive requires anything: add a CHECK that is not a CHECK-NOT")
    directives = len(_DIRECTIVE.findall(read_text(action.inputs["test"], "the test")))
    Path(action.outputs["report"]).write_text(json.dumps({"directives": directives}) + "\n", encoding="utf-8")
