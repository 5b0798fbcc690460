"""Verdicts of properties: what holds passes, what does not says where, and nothing passes that proves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.runtime import prepared
from mlir_matrix.actions.runtime.collect import is_measurable
from mlir_matrix.actions.tools import relate, transform

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def verdict(
    parts: list[Any],
    other: Any,
    op: dict[str, Any] | None = None,
    *,
    dtype: str = "f32",
    shape: Any = None,
    **more: Any,
) -> dict[str, Any]:
    files = {}
    for name, values in {"other-y": other, **{f"part{n}-y": part for n, part in enumerate(parts)}}.items():
        dtypes.save_npy(f"{name}.npy", np.asarray(values, dtype=dtypes.STORAGE[dtype]))
        files[name] = f"{name}.npy"
    bounds = {"compare": "exact", "atol": 0, "rtol": 0, "layer": "", **more}
    spec = {"name": "y", "dtype": dtype, "shape": list(np.shape(other) if shape is None else shape), **bounds}
    params = {
        "relation": "it holds",
        "outputs": [spec],
        "ops": {"y": op} if op else {},
        "join": {"y": 0},
        "parts": len(parts),
        "same": False,
    }
    relate.run(Action(params=params, inputs=files, outputs={"verdict": "verdict.json"}))
    found: dict[str, Any] = json.loads(Path("verdict.json").read_text(encoding="utf-8"))
    return found


def test_what_is_twice_as_much_is_twice_as_much() -> None:
    found = verdict([[2.0, -4.0]], [1.0, -2.0], {"kind": "scale", "factor": 2})
    assert found["outcome"] == "pass"
    assert found["reason"] == "it holds: all 2 elements are right; the worst error takes 0 % of its bound"
    assert found["metrics"]["elements"] == 2


def test_one_last_place_is_not_equal() -> None:
    found = verdict([[2.0, np.nextafter(np.float32(-4), np.float32(0))]], [1.0, -2.0], {"kind": "scale", "factor": 2})
    assert found["outcome"] == "mismatch"
    assert found["reason"].startswith(
        "expected: it holds; found: y: 1 of 2 elements (50 %) are wrong; worst at [1]: expected -4.0"
    )
    assert found["metrics"]["max_ulp"] == 1


def test_it_may_be_within_a_bound() -> None:
    almost = [[2.0, -4.0 + 2**-20]]
    bounds: dict[str, Any] = {"compare": "numeric", "atol": 1e-5}
    assert verdict(almost, [1.0, -2.0], {"kind": "scale", "factor": 2}, **bounds)["outcome"] == "pass"
    bounds["atol"] = 1e-7
    assert verdict(almost, [1.0, -2.0], {"kind": "scale", "factor": 2}, **bounds)["outcome"] == "mismatch"


def test_what_overflows_may_be_infinite() -> None:
    found = verdict([[np.inf, 2.0]], [3e38, 1.0], {"kind": "scale", "factor": 2})
    assert found["outcome"] == "pass"


def test_renumbered_outputs() -> None:
    rows = np.arange(14.0).reshape(7, 2)
    op = {"kind": "permute", "axes": [0]}
    assert verdict([rows[transform.order(7)]], rows, op)["outcome"] == "pass"
    assert verdict([rows], rows, op)["outcome"] == "mismatch"


def test_parts_of_a_batch() -> None:
    rows = np.arange(14.0).reshape(7, 2)
    assert verdict([rows[:4], rows[4:]], rows)["outcome"] == "pass"
    assert verdict([rows[4:], rows[:4]], rows)["outcome"] == "mismatch"
    short = verdict([rows[:4], rows[5:]], rows)
    assert short["outcome"] == "mismatch"
    assert "has the shape [6, 2], not [7, 2]" in short["reason"]
    odd = verdict([rows[:4], rows[4:, :1]], rows)
    assert "the parts of the batch do not fit together" in odd["reason"]


@pytest.mark.parametrize(
    ("parts", "other", "op", "says"),
    [
        ([[0.0, 0.0]], [0.0, 0.0], {"kind": "scale", "factor": 2}, "the operation does not change it"),
        ([[3.0, 3.0]], [3.0, 3.0], {"kind": "permute", "axes": [0]}, "the operation does not change it"),
        ([[np.nan, np.nan]], [np.nan, np.nan], {"kind": "scale", "factor": 2}, "there is no finite number in it"),
        ([[np.inf]], [np.inf], None, "there is no finite number in it"),
        ([[]], [], None, "zero elements prove nothing"),
    ],
)
def test_what_proves_nothing_is_no_match(parts: Any, other: Any, op: Any, says: str) -> None:
    found = verdict(parts, other, op)
    assert found["outcome"] == "mismatch"
    assert says in found["reason"]
    assert not is_measurable(found), "nobody can expect it"


def test_an_output_that_is_not_to_change_must_not() -> None:
    assert verdict([[3, 1]], [3, 1], dtype="i32")["outcome"] == "pass"
    assert verdict([[3, 2]], [3, 1], dtype="i32")["outcome"] == "mismatch"


def test_order_does_not_count_where_the_workload_says_so() -> None:
    assert verdict([[1.0, 3.0, 2.0]], [3.0, 2.0, 1.0], compare="order-free")["outcome"] == "pass"
    assert verdict([[1.0, 3.0, 2.5]], [3.0, 2.0, 1.0], compare="order-free")["outcome"] == "mismatch"


def test_one_run_is_not_compared_with_itself() -> None:
    spec = {"name": "y", "dtype": "f32", "shape": [1], "compare": "exact"}
    params = {"relation": "it holds", "outputs": [spec], "ops": {}, "join": {}, "parts": 1, "same": True}
    found = relate.relate(params, {})
    assert (found["outcome"], found["reason"]) == (
        "mismatch",
        "expected: it holds; found: y: both are one and the same run",
    )
    assert not is_measurable(found)


def test_a_file_that_cannot_be_read_is_no_match() -> None:
    Path("a.npy").write_bytes(b"\x93NUMPY")
    dtypes.save_npy("b.npy", np.ones(1, dtype=np.float32))
    spec = {"name": "y", "dtype": "f32", "shape": [1], "compare": "exact"}
    params = {"relation": "r", "outputs": [spec], "ops": {}, "join": {}, "parts": 1, "same": False}
    for inputs in ({"other-y": "a.npy", "part0-y": "b.npy"}, {"other-y": "b.npy", "part0-y": "a.npy"}):
        found = relate.relate(params, inputs)
        assert found["outcome"] == "mismatch"
        assert "not a readable .npy file" in found["reason"]


@pytest.mark.parametrize(("off", "outcome"), [(0.015, "pass"), (0.025, "mismatch")])
def test_two_runs_of_a_program_may_both_be_off_by_the_bound_of_each_element(off: float, outcome: str) -> None:
    arrays = {"expected-y": [1.0, 2.0], "bound-y": [0.01, 0.01]}
    for name, array in arrays.items():
        np.save(f"{name}.npy", np.array(array))
    for name, values in {"other": [1.0, 2.0], "part0": [1.0, 2.0 + off]}.items():
        np.save(f"{name}.npy", np.array(values, np.float32))
        prepared.pack(f"{name}.zip", {"y": f"{name}.npy"})
    Path("about.json").write_text(json.dumps({"y": {"rationale": "derived: by hand"}}))
    Path("interface.json").write_text(json.dumps({"outputs": [{"name": "y", "dtype": "f32", "shape": [2]}]}))
    prepared.pack("expected.zip", {**{name: f"{name}.npy" for name in arrays}, "about.json": "about.json"})
    bounds = {"atol": 0, "rtol": 0, "atol_text": "0", "rtol_text": "0", "layer": "", "rationale": "", "derived": True}
    params = {
        "relation": "it holds",
        "outputs": [],
        "ops": {},
        "join": {},
        "parts": 1,
        "same": False,
        "bounds": {"f32": bounds},
    }
    files = {"interface": "interface.json", "expected": "expected.zip", "other": "other.zip", "part0": "part0.zip"}
    relate.run(Action(params=params, inputs=files, outputs={"verdict": "verdict.json"}))
    assert json.loads(Path("verdict.json").read_text(encoding="utf-8"))["outcome"] == outcome
