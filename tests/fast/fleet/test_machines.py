"""What machines run together: cells without a machine, cells with several, and loads."""

from __future__ import annotations

from dataclasses import replace

from mlir_matrix.fleet.machines import fleet
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
