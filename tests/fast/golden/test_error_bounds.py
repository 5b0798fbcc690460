"""The a-priori bounds of the repository's workloads: references in single precision stay within them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.runtime.source import Tensor
from mlir_matrix.actions.tools import forward_error
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.plan.parameters import inputs_params, signature
from support import inputs

ROOT = Path(__file__).parents[3]
DRAWS = range(4)


@cache
def catalog() -> Catalog:
    return validate(load([ROOT]))


WORKLOADS = sorted(path.parent.name for path in ROOT.glob("matrix/workloads/*/workload.yaml"))


def drawn(workload: str, draw: int) -> list[Any]:
    """Inputs as a reference gets them."""
    made = inputs_params(catalog().workloads[workload].document, draw)
    return [
        dtypes.decode(
            inputs.tensor(each["formula"], each["seed"], made["dims"], each["shape"], dtype=each["dtype"]),
            each["dtype"],
        )
        for each in made["inputs"]
    ]


def errors(actual: Any, expected: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(actual == expected, 0.0, np.abs(actual.astype(np.float64) - expected))


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if not name.endswith("_f64")])
def test_the_reference_in_single_precision_stays_within(workload: str) -> None:
    entry = catalog().workloads[workload]
    specs = signature(entry.document)["outputs"]
    names = [Tensor(name=name, shape=(), dtype="f32") for name in entry.document.inputs]
    module: dict[str, Any] = {}
    exec(entry.reference.read_text(), module)
    for draw in DRAWS:
        arguments = drawn(workload, draw)
        expected, bounds = forward_error.bounded_reference(str(entry.reference), arguments, specs, names)
        single = [array.astype(np.float32) if array.dtype == np.float64 else array for array in arguments]
        returned = module["reference"](*single)
        for result, right, bound in zip(
            returned if isinstance(returned, tuple) else (returned,), expected, bounds, strict=True
        ):
            stored = np.asarray(result)
            if right.dtype == np.float64:
                stored = stored.astype(np.float32)
            assert (errors(stored, right) <= bound).all()
