"""The judge of reductions: wrong, right, and what shows nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.tools import disagree

pytestmark = pytest.mark.usefixtures("in_tmp_path")

X = np.linspace(0.5, 2, 6, dtype=np.float32)


def verdict(body: str, *draws: Any, dtype: str = "f32", other: Any = None, **params: Any) -> dict[str, Any]:
    """The verdict on results, one for each draw, of a reference with this body; or of another compiler's results."""
    files: dict[str, str] = {}
    for draw, result in enumerate(draws):
        arrays = {"arg": X, "actual": result} | ({} if other is None else {"other": other})
        for role, array in arrays.items():
            name = f"{role}-{draw}-{'x' if role == 'arg' else 'y'}"
            files[name] = f"{name}.npy"
            np.save(files[name], array)
    if other is None:
        files["source"] = "reference.py"
        Path("reference.py").write_text(f"import numpy as np\n\ndef reference(x):\n    {body}\n", encoding="utf-8")
    inputs = [{"name": "x", "dtype": "f32", "shape": [6]}]
    outputs = [{"name": "y", "dtype": dtype, "shape": [6]}]
    all_params: Any = {"inputs": inputs, "outputs": outputs, "draws": len(draws), **params}
    disagree.run(Action(params=all_params, inputs=files, outputs={"verdict": "verdict.json"}))
    found: dict[str, Any] = json.loads(Path("verdict.json").read_text(encoding="utf-8"))
    return found


def test_right_and_wrong_in_one_draw() -> None:
    right = np.exp(X)
    wrong = right.copy()
    wrong[3] *= np.float32(1.0001)
    found = verdict("return np.exp(x)", right)
    assert (found["comparable"], found["wrong"]) == (True, False)
    assert found["ratio"] < 1
    found = verdict("return np.exp(x)", right, wrong)
    assert (found["comparable"], found["wrong"]) == (True, True)
    assert [each["wrong"] for each in found["outputs"]] == [0, 1]
    assert found["reason"].startswith("y: 1 of 6 elements are wrong; the worst: expected 4.055")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return np.log(-x)", "draw 0: output y: reference() returns NaN in 6 of 6 elements"),
        ("raise ZeroDivisionError('by 0')", "draw 0: the reference raises ZeroDivisionError: by 0"),
        ("return x[np.array([9])]", "draw 0: the reference raises IndexError"),
        ("return np.fft.fft(x).real", "draw 0: no error bound is known for numpy.fft"),
        ("return x * 1e300", "y: the bound is infinite"),
        ("return (x * 1e9 + x) - x * 1e9", "y: the bound 170 is loose for values in a range of 2"),
    ],
)
def test_what_shows_nothing(body: str, reason: str) -> None:
    found = verdict(body, X)
    assert (found["comparable"], found["wrong"]) == (False, False)
    assert found["reason"].startswith(reason)


def test_results_of_another_shape_show_nothing() -> None:
    assert verdict("return x", X[:5])["reason"] == "draw 0: the output y is <f4 [5], not f32 [6]"


def test_without_a_reference_another_compiler_is_right() -> None:
    wrong = X.copy()
    wrong[0] += np.float32(0.01)
    assert not verdict("", X, other=X, atol=1e-3, rtol=0.0)["wrong"]
    found = verdict("", wrong, other=X, atol=1e-3, rtol=0.0)
    assert (found["comparable"], found["wrong"]) == (True, True)
    assert found["ratio"] == pytest.approx(10, rel=1e-3)


def test_integers_are_exact() -> None:
    found = verdict("return x.astype(np.int32)", (X + 1).astype(np.int32), dtype="i32")
    assert (found["comparable"], found["wrong"], found["ratio"]) == (True, True, "inf")
