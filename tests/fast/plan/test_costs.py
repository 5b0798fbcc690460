"""Planning what counts the costs of tests."""

from __future__ import annotations

import pytest

from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.costs import with_costs
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.session import plan_tests


def planned(current: Session, *globs: str) -> PlannedTests:
    tests = choose(current.catalog, globs, pins=current.pins).tests()
    return plan_tests(current, with_costs(tests))


def tools(plan: PlannedTests, test: str) -> set[str]:
    return {plan.graph.actions[name].tool for name in plan.graph.needed_by(plan.costs[test].action)}


def test_costs_are_planned_only_where_they_are_asked_for(current: Session) -> None:
    tests = list(choose(current.catalog, ["mlir/linalg-loops/x86_64-v3/matmul"]).tests())
    assert not plan_tests(current, tests).costs
    assert plan_tests(current, with_costs(tests)).costs.keys() == {tests[0].id}


def test_verdicts_have_the_same_actions_with_costs_and_without(current: Session) -> None:
    tests = list(choose(current.catalog, ["mlir/linalg-loops/x86_64-v3/*"]).tests())
    without, counting = plan_tests(current, tests), plan_tests(current, with_costs(tests))
    assert without.verdicts == counting.verdicts
    assert without.graph.actions.keys() < counting.graph.actions.keys()


@pytest.mark.parametrize(
    ("test", "counted", "inspected"),
    [
        ("mlir/linalg-loops/x86_64-v3/matmul", True, True),
        ("mlir/linalg-loops/aarch64/matmul", False, True),
        ("pytorch/iree-llvm-cpu/iree-local/mlp", False, False),
    ],
)
def test_each_target_is_counted_as_far_as_it_can_be(
    current: Session, test: str, counted: bool, inspected: bool
) -> None:
    plan = planned(current, test)
    found = tools(plan, test)
    assert ("count" in found, "inspect_object" in found) == (counted, inspected)
    absent = plan.graph.actions[plan.costs[test].action].params["absent"]
    assert ("instructions" in absent, "code_bytes" in absent) == (not counted, not inspected)


def test_only_ir_that_mlir_parses_has_operations(current: Session) -> None:
    # An importer of LLVM IR has MLIR's bindings, which do not read what it takes.
    plan = planned(current, "c/native/x86_64-v3/matmul")
    inputs = plan.graph.actions[plan.costs["c/native/x86_64-v3/matmul"].action].inputs
    assert {name for name in inputs if name.startswith("level-")} == {"level-llvm"}


def test_ir_tests_and_properties_have_no_costs(current: Session) -> None:
    assert not planned(current, "mlir/bufferize/ir/*").costs


def test_no_pin_changes_what_counts(current: Session) -> None:
    test = "mlir/linalg-loops/x86_64-v3/matmul"
    older = current.with_pins({"llvm": "22.1.8"})
    other = current.with_pins({"llvm": "19.1.7"})
    for session in (older, other):
        plan = planned(session, test)
        actions = (plan.graph.actions[name] for name in plan.graph.needed_by(plan.costs[test].action))
        (environment,) = {each.environment for each in actions if each.tool == "inspect_object"}
        assert (
            session.releases(environment)[0][1].release == Pins(session.catalog).release("llvm", "object-tools").release
        )


def test_native_code_is_marked(current: Session) -> None:
    plan = planned(current, "mlir/linalg-loops/{x86_64,x86_64-v3}/matmul")
    assert {name: each.native for name, each in plan.costs.items()} == {
        "mlir/linalg-loops/x86_64/matmul": True,
        "mlir/linalg-loops/x86_64-v3/matmul": False,
    }
