"""Tests on many draws of their inputs: what the draws share, and what each has of its own."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.golden.calibration import Draw, plan_draws
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.session import plan_tests

TESTS = ("mlir/linalg-{loops,vectorized}/x86_64/{matmul,topk}",)


def drawn(current: Session, draws: int, *globs: str) -> tuple[Graph, list[Draw]]:
    tests = choose(current.catalog, globs or TESTS).tests()
    return plan_draws(current.catalog, tests, ToleranceResolver(current.catalog).of, pins=current.pins, draws=draws)


def kinds(graph: Graph) -> Counter[str]:
    return Counter(action.tool for action in graph.actions.values())


@settings(max_examples=8)
@given(st.integers(1, 30))
def test_kernels_are_compiled_once_and_references_computed_once_a_draw(current: Session, draws: int) -> None:
    graph, planned = drawn(current, draws)
    once, _ = drawn(current, 1)
    found, single = kinds(graph), kinds(once)
    for tool in ("python_file", "passes", "object", "link", "link_kit"):
        assert found[tool] == single[tool]
    assert found["inputs"] == found["reference"] == 2 * draws
    assert found["run"] == found["judge"] == len(planned) == 4 * draws
    assert len({draw.verdict for draw in planned}) == len(planned)


def test_each_run_is_judged_by_the_reference_of_its_own_inputs(current: Session) -> None:
    graph, planned = drawn(current, 3)
    seeds = set()
    for draw in planned:
        judge = graph.actions[draw.verdict]
        run, reference = (graph.actions[name] for name in judge.sources)
        assert (run.tool, reference.tool) == ("run", "reference")
        (made,) = {name for name in (*run.sources, *reference.sources) if graph.actions[name].tool == "inputs"}
        seeds.add((draw.test.workload, draw.draw, tuple(one["seed"] for one in graph.actions[made].params["inputs"])))
    assert len(seeds) == 6
    assert len({found for _, _, found in seeds}) > 3


def test_the_first_draw_is_that_of_matrix_run(current: Session) -> None:
    graph, planned = drawn(current, 2)
    plan = plan_tests(current, [draw.test for draw in planned if draw.draw == 0])
    runs = {name for name, action in plan.graph.actions.items() if action.tool == "run"}
    assert runs < graph.actions.keys()


@pytest.mark.parametrize("draws", [1, 5])
def test_nothing_is_planned_that_is_not_needed(current: Session, draws: int) -> None:
    graph, planned = drawn(current, draws)
    needed = {name for draw in planned for name in graph.needed_by(draw.verdict)}
    assert needed == graph.actions.keys()
