"""Several computations of one output, compared pair by pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.compare.agreement import compare_all, unfit


def spec(dtype: str = "f32", shape: tuple[int, ...] = (3,), compare: str = "numeric", **bounds: float) -> Any:
    return {"name": "y", "dtype": dtype, "shape": list(shape), "compare": compare, "atol": 0.0, "rtol": 0.0, **bounds}


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    def save(**arrays: Any) -> dict[str, Path]:
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        return {name: tmp_path / f"{name}.npy" for name in arrays}

    return save


def compared(spec: Any, files: Any) -> Any:
    return compare_all(spec, dict.fromkeys(set(files) - {"reference"}, (spec, None)), files, "reference")


def test_pairs_and_elements(saved: Any) -> None:
    files = saved(test=np.float32([1, 2, 9]), reference=np.float64([1, 2, 3]), a=np.float32([1, np.nan, 3]))
    found = compared(spec(atol=0.5), files)
    assert {(pair["one"], pair["other"]): pair["differ"] for pair in found["pairs"]} == {
        ("test", "a"): 2, ("test", "reference"): 1, ("a", "reference"): 1,
    }  # fmt: skip
    assert [each["index"] for each in found["elements"]] == [[1], [2]]
    assert found["elements"][0]["values"] == {"test": 2.0, "reference": 2.0, "a": "nan"}


def test_equal_infinities_and_nan_agree(saved: Any) -> None:
    values = [np.inf, np.nan, -np.inf]
    found = compared(spec(), saved(test=np.float32(values), reference=np.float64(values)))
    assert (found["pairs"][0]["differ"], found["elements"]) == (0, [])


def test_order_free_outputs_are_sorted_by_value(saved: Any) -> None:
    # In bf16, the bits of -1 are larger than those of 1.
    files = saved(test=np.uint16([0x3F80, 0xBF80, 0]), reference=np.float64([0, 1, -1]))
    found = compared(spec("bf16", compare="order-free"), files)
    assert found["pairs"][0]["differ"] == 0


def test_exact_outputs_have_no_tolerance(saved: Any) -> None:
    files = saved(test=np.int32([1, 2, 4]), reference=np.int32([1, 2, 3]))
    found = compared(spec("i32", compare="exact", atol=9.0), files)
    assert (found["pairs"][0]["differ"], found["atol"]) == (1, 0.0)
    assert found["elements"] == [{"index": [2], "values": {"test": 4, "reference": 3}}]


def test_unfit_files(saved: Any, tmp_path: Path) -> None:
    files = saved(test=np.float64([1, 2, 3]), short=np.float32([1]))
    assert unfit(files["test"], spec()) == "y is float64 [3], not float32 [3]"
    assert unfit(files["test"], spec(), golden=True) == ""
    assert "not float32 [3]" in unfit(files["short"], spec())
    assert "not a readable .npy file" in unfit(tmp_path / "none.npy", spec())


def test_two_may_differ_by_the_tolerances_of_both(saved: Any) -> None:
    files = saved(test=np.float32([1.5]), reference=np.float64([1]), a=np.float32([0.5]))
    bounds = {"test": (spec(atol=0.5), None), "a": (spec(atol=0.4), None)}
    found = compare_all(spec(shape=(1,), atol=0.5), bounds, files, "reference")
    assert {(pair["one"], pair["other"]): pair["differ"] for pair in found["pairs"]} == {
        ("test", "a"): 1, ("test", "reference"): 0, ("a", "reference"): 1,
    }  # fmt: skip


def test_elements_have_bounds_of_their_own(saved: Any) -> None:
    """A bound that is infinite is unknown; then ``atol`` and ``rtol`` hold."""
    files = saved(test=np.float32([1.5, 2, 3.5]), reference=np.float64([1, 2, 3]), a=np.float32([1.5, 2.5, 3]))
    own = saved(bound=np.float64([0.4, 9, np.inf]))["bound"]
    bounds = {"test": (spec(atol=0.6), own), "a": (spec(atol=0.1), None)}
    found = compare_all(spec(atol=0.6), bounds, files, "reference")
    assert {(pair["one"], pair["other"]): pair["differ"] for pair in found["pairs"]} == {
        ("test", "a"): 0, ("test", "reference"): 1, ("a", "reference"): 2,
    }  # fmt: skip
    assert (found["own_bounds"], [each["index"] for each in found["elements"]]) == (True, [[0]])


def test_sorted_elements_have_the_largest_bound_of_their_row(saved: Any) -> None:
    files = saved(test=np.float32([[1.5, 0], [4, 3]]), reference=np.float64([[0, 1], [3, 3]]))
    own = saved(bound=np.float64([[0, 0.5], [0.2, 0.1]]))["bound"]
    of_rows = spec(shape=(2, 2), compare="order-free")
    found = compare_all(of_rows, {"test": (of_rows, own)}, files, "reference")
    assert (found["pairs"][0]["differ"], found["elements"][0]["index"]) == (1, [1, 1])
