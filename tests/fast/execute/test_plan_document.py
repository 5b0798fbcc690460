"""The plan document: complete, consistent in itself, and plain JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.plan_document import document_parts, environment_document, to_document, to_lines
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.session import plan_tests

GLOB = "{pytorch,jax,mlir}/**/{mlp,topk,scatter_add}"


@pytest.fixture(scope="module")
def made(current: Session) -> tuple[list[Test], PlannedTests, dict[str, Any]]:
    tests = list(choose(current.catalog, ("smoke", GLOB)).tests(excluded=True))
    plan = plan_tests(current, [test for test in tests if not test.excluded])
    return tests, plan, json.loads(json.dumps(to_document(tests, plan, current)))


def test_it_is_written_with_an_entry_a_line(
    made: tuple[list[Test], PlannedTests, dict[str, Any]], current: Session
) -> None:
    """Piece by piece, too: the parts are the whole document, and nothing of an action stays behind once it is written."""
    tests, plan, document = made
    for given in (document, {**document, "actions": [], "targets": iter(())}):
        lines = list(to_lines(given))
        assert json.loads("\n".join(lines)) == {**given, "targets": [] if given is not document else given["targets"]}
        for entry in (*given["tests"], *given["environments"]):
            assert any(json.loads(line.rstrip(",")) == entry for line in lines if line.startswith("  "))
    assert list(to_lines(document_parts(tests, plan, current))) == list(to_lines(document))


def test_every_test_is_there_with_its_reason(made: tuple[list[Test], PlannedTests, dict[str, Any]]) -> None:
    tests, plan, document = made
    assert document["schema"] == "mlir-matrix/plan/v1"
    assert [entry["id"] for entry in document["tests"]] == [test.id for test in tests]
    assert all(entry["reason"] for entry in document["tests"])
    assert {entry["id"]: entry["verdict"] for entry in document["tests"] if "verdict" in entry} == plan.verdicts
    unsupported = [entry for entry in document["tests"] if entry.get("outcome") == "unsupported"]
    assert unsupported
    assert not any(entry["selected"] or "verdict" in entry for entry in unsupported)


def test_expectations_come_with_their_place(made: tuple[list[Test], PlannedTests, dict[str, Any]]) -> None:
    entries = {entry["id"]: entry for entry in made[2]["tests"]}
    expectation = entries["jax/linalg-loops/x86_64/topk"]["expectation"]
    assert expectation["outcome"] == "lower-failed"
    assert expectation["position"].startswith("matrix/suites/smoke.yaml:")
    assert "expectation" not in entries["jax/linalg-loops/x86_64/mlp"]


def test_actions_name_exactly_the_tests_that_need_them(made: tuple[list[Test], PlannedTests, dict[str, Any]]) -> None:
    _, plan, document = made
    needed: dict[str, set[str]] = {action["id"]: set() for action in document["actions"]}
    for test, verdict in plan.verdicts.items():
        for action in plan.graph.needed_by(verdict):
            needed[action].add(test)
    assert {action["id"]: set(action["tests"]) for action in document["actions"]} == needed
    assert all(needed.values())


def test_what_actions_read_is_in_the_document(
    made: tuple[list[Test], PlannedTests, dict[str, Any]], current: Session
) -> None:
    document = made[2]
    outputs = {action["id"]: action["outputs"] for action in document["actions"]}
    environments = {entry["name"] for entry in document["environments"]}
    for action in document["actions"]:
        assert action["environment"] in environments
        for ref in action["inputs"].values():
            if "action" in ref:
                assert ref["output"] in outputs[ref["action"]]
            elif not ref["file"].startswith("golden/"):
                assert (current.catalog.roots[ref["catalog"]] / ref["file"]).is_file()


def test_environments_say_what_they_are_and_what_is_not_here(current: Session, tmp_path: Path) -> None:
    empty = replace(current, home=replace(current.home, cache=tmp_path))
    for reference in ("mlir", "filecheck", "python"):
        found = empty.environment(reference)
        assert isinstance(found, ResolvedEnvironment)
        entry = environment_document(found, empty)
        assert (entry["name"], entry["digest"]) == (reference, found.digest)
        assert entry["pins"] == empty.pins_of(reference)
        assert entry["missing"] == entry["packages"]
        assert len(entry["packages"]) == len(found.units)
        assert entry["bytes"]["to_fetch"] == entry["bytes"]["fetch"]


def test_an_environment_that_cannot_be_had_says_why(current: Session) -> None:
    entry = environment_document(UnavailableEnvironment(name="mlir@llvm=19.1.7", reason="no lock"), current)
    assert entry == {
        "name": "mlir@llvm=19.1.7",
        "pins": {"llvm": "19.1.7", "numpy": current.pins_of("mlir")["numpy"]},
        "unavailable": "no lock",
    }
