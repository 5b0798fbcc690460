"""Judge a step's IR test, or the artifact of a target that only compiles, by ``CHECK`` lines.

params   ``filecheck``: the release of LLVM whose FileCheck judges, by default the one in Python; ``runs``: the RUN lines of a test
inputs   ``ir``: the step's output or the artifact, as text; ``ir-1``, …: that of further RUN lines; ``test``: the file with the
         directives
outputs  ``report``: JSON, the number of ``directives``
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed, read_text
from mlir_matrix.actions.outcomes import judged_by
from mlir_matrix.actions.params import CheckedRun, IrTestParams
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.tools import check

preload = check.preload

_OPTION = re.compile(r"--?check-prefix(?:es)?=(.*)")


def run(action: Action[IrTestParams]) -> None:
    """Write the report. Raise ActionFailed with FileCheck's report, also for a test without directives."""
    owner, directives = action.params.get("filecheck", ""), 0
    runs = action.params.get("runs", [CheckedRun(line=0, options=[])])
    for number, each in enumerate(runs):
        try:
            ir = action.inputs[f"ir-{number}" if number else "ir"]
            directives += _check(ir, action.inputs["test"], each["options"], owner)
        except ActionFailed as error:
            where = f"RUN line {each['line']}: " if each["line"] else ""
            reason = f"{judged_by(owner)}: {where}{error.reason}"
            raise ActionFailed(reason, diagnostics=error.diagnostics) from None
    Path(action.outputs["report"]).write_text(json.dumps({"directives": directives}) + "\n", encoding="utf-8")


def _check(ir: str, test: str, options: Sequence[str], owner: str) -> int:
    """Hold IR against directives; return their number. Raise ActionFailed."""
    read_text(ir, "what FileCheck reads")
    found = [(option, _OPTION.fullmatch(option)) for option in options]
    prefixes = [name for _, match in found if match for name in match[1].split(",")]
    # In Python, the last --check-prefixes replaces the ones before.
    once = [f"--check-prefixes={','.join(prefixes)}"] if prefixes else []
    once += [option for option, match in found if match is None]
    if owner:
        try:
            words = [test, f"--input-file={ir}", "--dump-input=never", *once]
            programs.execute("FileCheck", words, failure="FileCheck failed")
        except ActionFailed as error:
            raise check.refused(error.diagnostics) from None
    else:
        check.require(Path(ir), Path(test), once)
    names = f"//\\s*(?:{'|'.join(map(re.escape, prefixes or ['CHECK']))})"
    text = read_text(test, "the test")
    if not re.search(rf"{names}(?:-(?:LABEL|SAME|NEXT|DAG|COUNT-\d+))?(?:\{{[A-Z,]+\}})?:", text):
        raise ActionFailed("no directive requires anything: add a CHECK that is not a CHECK-NOT")
    return len(re.findall(rf"{names}(?:-[A-Z]+)*(?:\{{[A-Z,]+\}})?:", text))
