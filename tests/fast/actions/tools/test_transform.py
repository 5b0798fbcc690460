"""What a property does to tensors: exactly that, the same everywhere, and never nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.tools import transform

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def perform(array: Any, dtype: str, op: dict[str, Any]) -> Any:
    dtypes.save_npy("x.npy", np.asarray(array, dtype=dtypes.STORAGE[dtype]))
    params = {"inputs": [{"name": "x", "dtype": dtype, "op": op}]}
    transform.run(Action(params=params, inputs={"x": "x.npy"}, outputs={"x": "made.npy"}))
    return dtypes.load_npy("made.npy")


@given(st.integers(2, 5000))
def test_an_order_is_a_permutation_and_never_the_identity(size: int) -> None:
    found = transform.order(size)
    assert sorted(found) == list(range(size))
    assert (found != np.arange(size)).any()
    assert (found == transform.order(size)).all()


def test_the_order_never_changes() -> None:
    """Results are kept by what they were made of: another permutation would need another name."""
    assert transform.order(7).tolist() == transform.order(7).tolist()
    assert transform.order(2).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_powers_of_two_are_exact(dtype: str) -> None:
    array = np.linspace(-3, 5, 33).astype(dtypes.STORAGE[dtype])
    made = perform(array, dtype, {"kind": "scale", "factor": -0.5})
    assert made.dtype == array.dtype
    assert (made == array / -2).all()


def test_bf16_is_scaled_by_its_value_and_not_its_bits() -> None:
    made = perform([0x3F80, 0xC040], "bf16", {"kind": "scale", "factor": 2})
    assert made.tolist() == [0x4000, 0xC0C0]


def test_whole_numbers_are_scaled_exactly_or_not_at_all() -> None:
    large = 2**53 + 1
    assert perform([large, -3], "i64", {"kind": "scale", "factor": 2}).tolist() == [2 * large, -6]
    with pytest.raises(ActionFailed, match=r"x times 2 does not fit: element 1 is 128"):
        perform([5, 64], "i8", {"kind": "scale", "factor": 2})


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ActionFailed, match=r"x times 2 does not fit: element 0 is .*, which f16 cannot hold"):
        perform([60000], "f16", {"kind": "scale", "factor": 2})


def test_all_axes_are_renumbered_alike() -> None:
    array = np.arange(49.0).reshape(7, 7)
    order = transform.order(7)
    made = perform(array, "f64", {"kind": "permute", "axes": [0, 1]})
    assert (made == array[order][:, order]).all()


def test_a_slice() -> None:
    array = np.arange(12.0).reshape(3, 4)
    op = {"kind": "slice", "axis": 1, "start": 2, "stop": 4}
    assert (perform(array, "f64", op) == array[:, 2:]).all()


@pytest.mark.parametrize("op", [{"kind": "scale", "factor": 2}, {"kind": "permute", "axes": [0]}])
def test_what_changes_nothing_is_refused(op: dict[str, Any]) -> None:
    with pytest.raises(ActionFailed, match="no input changes"):
        perform(np.zeros((4, 2)), "f32", op)
