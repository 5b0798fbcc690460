"""The a-priori bounds of the repository's workloads: references in single precision stay within them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.runtime.source import Tensor
from mlir_matrix.actions.tools import forward_error
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.parameters import signature
from support import inputs

ROOT = Path(__file__).parents[3]
DRAWS = range(4)
WORKLOADS = sorted(path.parent.name for path in ROOT.glob("matrix/workloads/*/workload.yaml"))


def errors(actual: Any, expected: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(actual == expected, 0.0, np.abs(actual.astype(np.float64) - expected))


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if not name.endswith("_f64")])
def test_the_reference_in_single_precision_stays_within(current: Session, workload: str) -> None:
    entry = current.catalog.workloads[workload]
    specs = signature(entry.document)["outputs"]
    names = [Tensor(name=name, shape=(), dtype="f32") for name in entry.document.inputs]
    module: dict[str, Any] = {}
    exec(entry.reference.read_text(), module)
    for draw in DRAWS:
        arguments = inputs.decoded(entry.document, draw)
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
