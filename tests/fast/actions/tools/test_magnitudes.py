"""How large the elements of goldens are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.tools import magnitudes


def measured(folder: Path, **files: Path) -> dict[str, dict[str, float]]:
    inputs = {f"golden-{name}": str(path) for name, path in files.items()}
    out = folder / "magnitudes.json"
    magnitudes.run(Action(params={}, inputs=inputs, outputs={"magnitudes": str(out)}))
    found: dict[str, dict[str, float]] = json.loads(out.read_text())
    return found


def saved(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


def test_sizes_are_those_of_the_finite_elements(tmp_path: Path) -> None:
    y = saved(tmp_path / "y.npy", [-4.0, 1.0, np.inf, 2.0, 0.0, np.nan])
    n = saved(tmp_path / "n.npy", np.array([[3, -7]], dtype=np.int32))
    assert measured(tmp_path, y=y, n=n) == {
        "y": {"elements": 6, "median": 1.5, "largest": 4.0},
        "n": {"elements": 2, "median": 5.0, "largest": 7.0},
    }


def test_where_nothing_is_finite_nothing_has_a_size(tmp_path: Path) -> None:
    assert measured(tmp_path, y=saved(tmp_path / "y.npy", [np.inf])) == {"y": {"elements": 1}}
    assert measured(tmp_path) == {}


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "y.npy").write_bytes(b"nothing")
    with pytest.raises(ActionFailed, match=r"y: the golden is not a readable .npy file"):
        measured(tmp_path, y=tmp_path / "y.npy")
