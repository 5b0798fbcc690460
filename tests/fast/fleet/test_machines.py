"""What machines run together: cells without a machine, cells with several, and loads."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.machines import fleet
from mlir_matrix.fleet.selection import _left_alone
from support.catalogs import catalog
from support.machines import chosen, machine, suite_tests

SMOKE = suite_tests("smoke")
CELL = "jax/linalg-loops/x86_64"


def test_a_fleet_names_what_nobody_and_what_several_run() -> None:
    one = machine("{leave-out: [{match: ['jax/**'], reason: no JAX here}], budget-minutes: 10}")
    two = replace(machine("{leave-out: [{match: ['jax/**', 'pytorch/**'], reason: only IR}]}"), name="two")
    choices = {each.name: chosen(each, SMOKE) for each in (one, two)}
    report = fleet(SMOKE, [one, two], choices)
    jax = [test.id for test in SMOKE if test.selected and test.identity.cell == CELL]
    ir = [test.id for test in SMOKE if test.selected and test.is_ir]
    assert report["nobody"] == [
        {"cell": CELL, "tests": jax, "reason": "left out by machines/box.yaml:3:21: only IR"},
    ]
    assert report["several"] == [{"cell": "IR tests of steps", "tests": ir, "machines": ["box", "two"]}]
    assert report["summary"] == {
        "machines": 2, "tests": sum(test.selected for test in SMOKE), "nobody": len(jax), "several": len(ir)
    }  # fmt: skip
    # Nothing is recorded: a second for each test, on two cores.
    assert [each["minutes"] for each in report["machines"]] == [
        round(choice_tests / 120, 3) for choice_tests in (report["machines"][0]["tests"], len(ir))
    ]
    assert report["machines"][0]["left_out"] == {"not wanted": len(jax)}


def test_tests_in_no_suite_of_a_machine_are_named() -> None:
    box = machine()
    report = fleet(SMOKE, [box], {"box": chosen(box, [])})
    assert report["summary"]["nobody"] == sum(test.selected for test in SMOKE)
    assert {each["reason"] for each in report["nobody"]} == {"in no suite of a machine"}


def test_expectations_that_globs_leave_alone_are_named() -> None:
    """A suite beside the globs has its expectations; globs alone have those of the default suite."""
    rules = "expect: [{tests: ['jax/*/*/mlp'], outcome: mismatch, reason: known}]"
    product = "blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64]}}]"
    found = catalog({"smoke": product, "known": f"{product}\n{rules}"})
    session = cast(Session, SimpleNamespace(catalog=found, pins=Pins(found)))
    tests = list(choose(found, ["jax/**"]).tests())
    (warning,) = _left_alone(session, machine("{suites: ['jax/**']}"), tests)
    assert warning.startswith(
        "machines/box.yaml:3:9: globs without their suite leave expectations alone: suites/known.yaml:"
    )
    assert warning.endswith(" (1 test)")
    assert list(_left_alone(session, machine("{suites: [known, 'jax/**']}"), tests)) == []
