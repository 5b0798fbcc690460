"""Plans of properties: all that is before a kernel is shared with the test without the property, and so is its run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import Resolved, ToleranceResolver
from mlir_matrix.plan.graph import PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests, Planner
from mlir_matrix.plan.properties import PropertyPlanner
from mlir_matrix.plan.session import plan_tests

BASE = "pytorch/linalg-loops/x86_64"


@pytest.fixture(scope="module")
def plan(current: Session) -> PlannedTests:
    return plan_tests(current, choose(current.catalog, ("properties",)).tests())


def chain(plan: PlannedTests, test: str) -> dict[str, PlannedAction]:
    return {name: plan.graph.actions[name] for name in plan.graph.needed_by(plan.verdicts[test])}


def added(plan: PlannedTests, test: str) -> list[str]:
    """The tools of what a property needs more than the test without it, which ends in a judge."""
    base = chain(plan, test.partition("~")[0])
    return sorted(action.tool for name, action in chain(plan, test).items() if name not in base)


@pytest.mark.parametrize(
    ("test", "more"),
    [
        (f"{BASE}/matmul~doubled", ["relate", "run", "transform"]),
        (f"{BASE}/matmul~shuffled", ["relate", "run", "transform"]),
        (f"{BASE}/mlp_dynamic~batch", ["relate", "run", "run", "transform", "transform"]),
        (
            f"{BASE}/matmul~as-written",
            ["link", "object", "passes", "passes", "passes", "passes", "python_file", "relate", "run"],
        ),
    ],
)
def test_what_a_property_adds(plan: PlannedTests, test: str, more: list[str]) -> None:
    assert added(plan, test) == more


def test_a_static_batch_is_imported_for_each_size(plan: PlannedTests) -> None:
    imports = [action for action in chain(plan, f"{BASE}/mlp~batch").values() if action.tool == "python_file"]
    assert sorted(action.params["dims"]["B"] for action in imports) == [3, 4, 7]
    assert sorted(action.params["inputs"][0]["shape"][0] for action in imports) == [3, 4, 7]


def test_halves_are_parts_of_the_same_inputs(plan: PlannedTests) -> None:
    actions = chain(plan, f"{BASE}/mlp_dynamic~batch")
    (inputs,) = [name for name, action in actions.items() if action.tool == "inputs"]
    parts = [action for action in actions.values() if action.tool == "transform"]
    assert [action.inputs for action in parts] == [{"x": Produced(inputs, "x")}] * 2
    ops = [action.params["inputs"][0]["op"] for action in parts]
    assert sorted((op["axis"], op["start"], op["stop"]) for op in ops) == [(0, 0, 7), (0, 7, 13)]
    runs = [action for action in actions.values() if action.tool == "run"]
    assert len({action.inputs["kernel"] for action in runs}) == 1, "one kernel for all sizes"
    assert sorted(action.params["arguments"][0]["shape"][0] for action in runs) == [6, 7, 13]


def test_what_a_relation_is_told(current: Session, plan: PlannedTests) -> None:
    test = f"{BASE}/matmul~tripled"
    told = plan.graph.actions[plan.verdicts[test]].params
    (spec,) = told["outputs"]
    bound = ToleranceResolver(current.catalog).of(next(each for each in plan.tests if each.id == test), "y")
    assert (spec["atol"], spec["rtol"], spec["layer"]) == (3 * bound.atol, 2 * bound.rtol, bound.location)
    assert told["ops"] == {"y": {"kind": "scale", "factor": -1.5}}
    assert told["relation"] == "x times 3, w times -0.5 gives y times -1.5, within the sum of both tolerances"


def test_exact_property_has_bounds_of_0(plan: PlannedTests) -> None:
    (spec,) = plan.graph.actions[plan.verdicts[f"{BASE}/matmul~doubled"]].params["outputs"]
    assert (spec["compare"], spec["atol"], spec["rtol"]) == ("exact", 0, 0)


def test_last_places_are_bounds_of_both_runs_and_none_of_what_is_equal(current: Session, plan: PlannedTests) -> None:
    def tolerate(test: Test, output: str) -> Resolved:
        places = 2.0 if "linalg-loops" in test.pipeline else None
        text = None if places is None else "2"
        return replace(ToleranceResolver(current.catalog).of(test, output), max_ulp=places, max_ulp_text=text)

    planner = PropertyPlanner(
        Planner(current.catalog, tolerate, current.pins).chains, current.catalog, tolerate, "numpy"
    )
    tests = {test.id: test for test in plan.tests}
    within, exact = tests[f"{BASE}/matmul~tripled"], tests[f"{BASE}/matmul~doubled"]
    other = replace(within, pipeline="linalg-vectorized")
    for one, another, wanted in (
        (within, within, (4, "2 + 2")),
        (within, other, (2, "2")),
        (exact, exact, (None, None)),
    ):
        (spec,) = planner._specs(one, another, {})
        assert (spec.get("max_ulp"), spec.get("max_ulp_text")) == wanted


def test_ir_is_compared_where_the_next_step_would_read_it(plan: PlannedTests) -> None:
    test = "mlir/linalg-named/x86_64/matmul~same-loops"
    last = plan.graph.actions[plan.verdicts[test]]
    assert (last.tool, last.environment, last.params["same"]) == ("same_ir", "mlir", False)
    assert last.params["backend"] == "bindings"
    made = [plan.graph.actions[ref.action] for ref in last.inputs.values() if isinstance(ref, Produced)]
    assert [action.id.rsplit("-", 1)[0] for action in made] == ["linalg-to-loops"] * 2


def test_a_release_without_bindings_compares_by_programs(current: Session) -> None:
    from mlir_matrix.catalog.pins import Pins

    own = replace(current, pins=Pins(current.catalog, {"llvm": "19.1.7"}))
    test = "mlir/linalg-named/x86_64/matmul~same-loops"
    plan = plan_tests(own, choose(own.catalog, (test,), pins=own.pins).tests())
    last = plan.graph.actions[plan.verdicts[test]]
    assert (last.tool, last.params["backend"], last.environment) == ("same_ir", "programs", "mlir@llvm=19.1.7")
