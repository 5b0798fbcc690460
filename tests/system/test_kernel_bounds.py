"""The a-priori bounds of the repository's workloads: no compiled program that is right is beyond them, and they are of use."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.references import add_reference
from mlir_matrix.plan.request import Limits

WORKLOADS = sorted(path.parent.name for path in Path(__file__).parents[2].glob("matrix/workloads/*/workload.yaml"))
#: MLIR's own loops, and C where there is no program in linalg.
COMPILED = ("mlir/linalg-loops/x86_64/*", "c/native/x86_64/{csr_matmul,csr_matvec,dot8_i16,fir_i16,frontier_*}")
DRAWS = range(2)
#: How many times the largest error of any real program the largest bound may be. A chain of sums is bounded by what
#: happens where all roundings of all of them go the same way, which none does: each sum of n terms adds a factor sqrt(n).
LOOSE = {"reduce_sum": 1e5, "transformer_block": 2e6}
USUAL = 1000.0


def errors(actual: Any, expected: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(actual == expected, 0.0, np.abs(actual.astype(np.float64) - expected))


@pytest.fixture(scope="module")
def kernels(current: Session) -> dict[str, list[tuple[Any, Any, Any]]]:
    """For each workload what compiled programs gave, what is right and the bound, over some draws."""
    chosen = choose(current.catalog, COMPILED).tests()
    planner = Planner(current.catalog, ToleranceResolver(current.catalog).of, current.pins)
    planned = []
    for test in (test for test in chosen if test.outcome is None and not test.is_ir):
        artifact = planner.chains.compile(test)
        entry = current.catalog.workloads[test.workload]
        for draw in DRAWS:
            bound = add_reference(planner.graph, current.catalog, entry, draw=draw, tool="forward_error")
            planned.append((entry, planner.chains.run(test, artifact, draw=draw), bound))
    done = run_graph(current, planner.graph, limits=Limits(jobs=2))
    store = ActionCache(current.home.actions)
    found: dict[str, list[tuple[Any, Any, Any]]] = {}
    for entry, run, bound in planned:
        given = done[run].result.outputs | done[bound].result.outputs
        assert done[run].result.ok, done[run].result.outcome
        assert done[bound].result.ok, done[bound].result.outcome
        for name, output in entry.document.outputs.items():
            names = (f"out-{name}", f"expected-{name}", f"bound-{name}")
            actual, right, most = (np.load(io.BytesIO(store.read_blob(given[each]))) for each in names)
            actual = dtypes.decode(actual, output.dtype)
            if output.compare == "order-free":
                actual, right = np.sort(actual, axis=-1), np.sort(right, axis=-1)
            found.setdefault(entry.name, []).append((actual, right, most))
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_real_programs_stay_within(kernels: dict[str, list[tuple[Any, Any, Any]]], workload: str) -> None:
    for actual, right, bound in kernels[workload]:
        assert (errors(actual, right) <= bound).all()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_bound_is_near_enough_to_what_happens(kernels: dict[str, list[tuple[Any, Any, Any]]], workload: str) -> None:
    worst = max(float(errors(actual, right).max()) for actual, right, _ in kernels[workload])
    most = max(float(bound.max()) for _, _, bound in kernels[workload])
    assert most <= LOOSE.get(workload, USUAL) * worst
