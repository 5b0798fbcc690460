"""Write the text in a module of IREE: names, and PTX where it has some."""

import re
from pathlib import Path

from mlir_matrix.actions.api import Action


def run(action: Action) -> None:
    found = re.findall(rb"[\t\n\x20-\x7e]{8,}", Path(action.inputs["artifact"]).read_bytes())
    Path(action.outputs["out"]).write_bytes(b"\n".join(found) + b"\n")
