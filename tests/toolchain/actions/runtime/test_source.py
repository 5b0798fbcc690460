"""What PyTorch computes at import is equal on every CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT

CONSTANT = "import torch\n\nPLACES = torch.linspace(0, 1.3, 777)\n\ndef workload(x):\n    return x + PLACES\n"


def test_constants_are_those_of_no_cpu(environments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch divides a line otherwise where it has AVX2; emulated CPUs without it gave what is computed here."""
    if "avx2" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this CPU has no AVX2, by which PyTorch would choose its code")
    tensor = {"shape": [777], "dtype": "f32", "dynamic": []}
    params = {"kind": "torch", "inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]}

    def imported(name: str) -> str:
        done = environments.perform(
            "torch", "matrix/frameworks/pytorch/importer.py", tmp_path / name, params=params, inputs={"source": CONSTANT},
            outputs={"out": "ir.mlir"}, stage="import", plain=True,
        )  # fmt: skip
        assert done.ok, done.outcome
        return str(done.text("out"))

    pinned = imported("pinned")
    monkeypatch.setitem(CLEAN_ENVIRONMENT, "ATEN_CPU_CAPABILITY", "avx2")
    assert imported("own") != pinned
