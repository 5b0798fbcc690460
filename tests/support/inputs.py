"""Make inputs from formulas: whole arrays, and single elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlir_matrix.actions.expr.formula import parse_formula
from mlir_matrix.actions.numerics.dtypes import STORAGE, Array, decode
from mlir_matrix.actions.tools.inputs import Elements, blocks
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.plan.parameters import inputs_params


def tensor(formula: str, seed: int, dims: Mapping[str, int], shape: Sequence[int], *, dtype: str) -> Array:
    made = [np.empty(0, STORAGE[dtype]), *blocks(formula, seed, dims, shape, dtype=dtype)]
    return np.concatenate(made).reshape(tuple(shape))


def element(formula: str, seed: int, dims: Mapping[str, int], shape: Sequence[int], index: Sequence[int]) -> float:
    """One element, before it is rounded to a dtype, computed alone."""
    linear = np.array([np.ravel_multi_index(tuple(index), tuple(shape)) if shape else 0], dtype=np.uint64)
    return float(Elements(formula, seed, dims, shape, linear).compute(parse_formula(formula, dims))[0])


def decoded(workload: Workload, draw: int = 0) -> list[Array]:
    """The inputs of a workload as its reference gets them."""
    made = inputs_params(workload, draw)
    return [
        decode(tensor(each["formula"], each["seed"], made["dims"], each["shape"], dtype=each["dtype"]), each["dtype"])
        for each in made["inputs"]
    ]
