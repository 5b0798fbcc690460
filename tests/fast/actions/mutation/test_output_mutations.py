"""Mutations of outputs: each changes what it says and nothing else, in every dtype."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.mutation.output_mutations import MUTATIONS, Planting, flips
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.catalog.models.base import RealDtype
from mlir_matrix.golden.mutants import OUTPUTS


def planting(values: Any, dtype: str = "f32", *, draw: int = 0, other: Any = None) -> Planting:
    def stored(array: Any) -> Any:
        array = np.asarray(array, dtype=np.float64)
        return dtypes.encode(array, dtype)

    return Planting(stored=stored(values), dtype=dtype, draw=draw, other=None if other is None else stored(other))


def mutants(name: str, of: Planting) -> list[Any]:
    return [array for _, array in MUTATIONS[name](of)]


def test_plans_know_the_names() -> None:
    assert set(OUTPUTS) == set(MUTATIONS)


@given(
    st.sampled_from(get_args(RealDtype)),
    st.lists(st.integers(1, 9), min_size=0, max_size=3),
    st.integers(0, 60),
    st.sampled_from(OUTPUTS),
)
def test_mutants_are_outputs_of_the_same_kind(dtype: str, shape: list[int], draw: int, name: str) -> None:
    values = np.arange(float(np.prod(shape, dtype=int))).reshape(shape) % 2
    given_ = planting(values, dtype, draw=draw, other=1 - values)
    before = given_.stored.copy()
    for mutant in mutants(name, given_):
        assert (mutant.dtype, mutant.shape) == (given_.stored.dtype, given_.stored.shape)
    assert np.array_equal(given_.stored, before), "what is mutated stays as it was"


@pytest.mark.parametrize(("dtype", "bits"), [("f32", {0, 2, 4, 8, 12, 16, 20, 22}), ("bf16", {0, 1, 2, 3, 4, 5, 6})])
def test_bits_are_those_of_the_mantissa(dtype: str, bits: set[int]) -> None:
    assert set(flips(dtype).values()) == bits


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "name", [name for name in OUTPUTS if name.startswith("output-flip-bit-") and name[-1].isdigit()]
)
def test_a_flipped_bit_is_a_relative_error_of_its_weight(dtype: str, name: str) -> None:
    of = planting([[1.0, 2.0], [4.0, 8.0]], dtype)
    weight = 2.0 ** (flips(dtype)[name] - {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}[dtype])
    for mutant in mutants(name, of):
        was, now = dtypes.decode(of.stored, dtype), dtypes.decode(mutant, dtype)
        assert np.count_nonzero(was != now) == 1
        assert (np.abs(now - was) / was).max() == weight


def test_zeros_have_no_mantissa_to_flip() -> None:
    assert mutants("output-flip-bit-22", planting([0.0, 2.0**-140])) == []
    (only,) = mutants("output-flip-bit-22", planting([0.0, 1.0, 0.0]))
    assert only.tolist() == [0.0, 1.5, 0.0]


def test_integers_flip_the_lowest_and_the_highest() -> None:
    of = planting([5, 5], "i32")
    assert 4 in mutants("output-flip-bit-0", of)[0]
    assert 5 - 2**31 in mutants("output-flip-bit-top", of)[0]
    assert mutants("output-flip-bit-4", of) == []


def test_tails_are_what_tiles_leave_over() -> None:
    (rows,) = mutants("output-zeroed-tail", planting(np.ones(11)))
    assert rows.tolist() == [1.0] * 8 + [0.0] * 3
    (last,) = mutants("output-zeroed-tail", planting(np.ones(8)))
    assert last.tolist() == [1.0] * 7 + [0.0]
    stale = mutants("output-stale-tail", planting(np.ones(9), other=np.full(9, 7.0)))
    assert [mutant.tolist() for mutant in stale] == [[1.0] * 8 + [7.0]]
    assert mutants("output-stale-tail", planting(np.ones(9))) == []


def test_a_tile_is_transposed_and_nothing_else() -> None:
    of = planting(np.arange(100.0).reshape(10, 10))
    (mutant,) = mutants("output-transposed-tile", of)
    assert mutant[1, 0] == of.stored[0, 1]
    assert np.array_equal(mutant[:8, :8], of.stored[:8, :8].T)
    assert np.array_equal(mutant[8:], of.stored[8:])
    assert np.array_equal(mutant[:, 8:], of.stored[:, 8:])


def test_everything_else() -> None:
    of = planting([[1.0, 1.0 + 2.0**-20], [-3.0, 5.0]])
    assert [mutant.tolist() for mutant in mutants("output-shifted", planting([1.0, 2.0, 3.0]))] == [[3.0, 1.0, 2.0]]
    assert mutants("output-rounded-to-bf16", of)[0][0, 1] == 1.0
    assert mutants("output-scaled", of)[0][1, 1] == pytest.approx(5 * (1 + 2.0**-12))
    assert [mutant.tolist() for mutant in mutants("output-sign", planting([2.0, -3.0]))] == [[2.0, 3.0]]
