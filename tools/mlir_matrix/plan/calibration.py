"""Plan tests on many draws of their inputs, each judged by the reference for the same draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.properties import Tolerate
from mlir_matrix.plan.references import add_expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A test on one draw of its inputs, and the action that gives the verdict."""

    test: Test
    draw: int
    verdict: str


def plan_draws(
    catalog: Catalog, tests: Iterable[Test], tolerate: Tolerate, *, pins: Pins, draws: int
) -> tuple[Graph, list[Draw]]:
    """Plan every test ``draws`` times. Kernels are compiled once, and references computed once for each draw.

    Draw 0 is that of the goldens, so that its runs are those of ``matrix run``.
    """
    planner = Planner(catalog, tolerate, pins)
    numpy = pins.reference("numpy")
    references: dict[tuple[str, int], dict[str, Produced]] = {}
    planned = []
    for test in tests:
        workload = catalog.workloads[test.workload]
        kernel = planner.chains.compile(test)
        for draw in range(draws):
            if is_prepared(catalog, workload):
                ran = planner.chains.run(test, kernel, draw=draw)
                planned.append(Draw(test=test, draw=draw, verdict=planner.judge_program(test, ran, draw)))
                continue
            key = (workload.name, draw)
            if key not in references:
                references[key] = add_expected(planner.graph, catalog, workload, numpy, draw=draw)
            verdict = planner.judge(test, planner.chains.run(test, kernel, draw=draw), references[key])
            planned.append(Draw(test=test, draw=draw, verdict=verdict))
    return planner.graph, planned
