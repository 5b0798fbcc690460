"""``matrix/frameworks/pytorch/importer.py``, in the environment of the framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORKLOAD = """\
import torch

def workload(x):
    y = x + 1
    return torch.cummax(y, dim=0).values
"""


def test_a_failure_names_the_line_of_the_source(environments: Any, tmp_path: Path) -> None:
    tensor = {"shape": [7], "dtype": "f32", "dynamic": []}
    params = {"kind": "torch", "inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]}
    done = environments.perform(
        "torch", "matrix/frameworks/pytorch/importer.py", tmp_path, params=params, inputs={"source": WORKLOAD},
        outputs={"out": "ir.mlir"}, stage="import",
    )  # fmt: skip
    assert done.outcome["outcome"] == "import-failed"
    assert done.outcome["reason"].startswith("no pattern converts 'torch.aten.cummax'")
    assert ":5:0" in done.outcome["diagnostics"]
    assert "importer.py" not in done.outcome["diagnostics"]
