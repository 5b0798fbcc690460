"""Failures of a run are grouped by their causes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.names import TestId, test_glob
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.results import TestResult

ROUTE = ["bufferize", "linalg-to-loops", "loops-to-llvm", "object"]
STAGES = {"lower-failed": "lower", "codegen-failed": "codegen", "run-failed": "run", "import-failed": "import"}


def result(test: str, outcome: str = "pass", at: str = "", reason: str = "", **more: Any) -> TestResult:
    """Return the result of a test, which ended at a step or at another action."""
    of = TestId.parse(test)
    steps = ROUTE if at not in ROUTE else ROUTE[: ROUTE.index(at) + 1]
    names = {"framework": of.framework, "pipeline": of.pipeline, "target": of.target, "workload": of.workload}
    fields = {
        "expected": outcome == "pass", "steps": [] if at.startswith("import/") else steps,
        "step": {"name": at, "action": f"{at}-{test}"} if at else None, **more,
    }  # fmt: skip
    stage: Any = STAGES.get(outcome, "judge")
    return TestResult(id=test, **names, outcome=Outcome(outcome), stage=stage, reason=reason, **fields)


def several(count: int, pattern: str, *arguments: str, **more: Any) -> list[TestResult]:
    """Return results of tests of several workloads; ``#`` in the pattern and in texts stands for their number."""
    return [
        result(pattern.replace("#", str(number)), *(each.replace("#", str(number)) for each in arguments), **more)
        for number in range(count)
    ]


def ir_test(step: str) -> TestResult:
    found = result(f"mlir/{step}/ir/matmul", "mismatch", f"filecheck/{step}/matmul", "the IR does not match")
    return TestResult(**{**found.to_fields(), "steps": [step]})


def test_a_run_without_failures_has_no_causes() -> None:
    held: Any = {"owner": "me", "until": "2026-02-01", "reason": "r", "position": "f:1:1"}
    failed = result("jax/loops/t/a", "lower-failed", "bufferize", "bufferize: x", quarantine=held)
    assert causes_of([*several(3, "jax/loops/t/w#"), failed]) == []


def test_tests_that_fail_alike_at_a_step_are_one_cause() -> None:
    failed = several(
        3, "jax/loops/t/w#", "lower-failed", "bufferize", "bufferize: no pattern converts 'a.b' (value = #)"
    )
    other = result("jax/loops/t/z", "lower-failed", "bufferize", "bufferize: another")
    first, second = causes_of([*failed, other, *several(9, "onnx/loops/t/w#")])
    assert first["tests"] == [each.id for each in failed]
    assert first["title"] == "bufferize: no pattern converts 'a.b' (value = 0)"
    assert (first["kind"], first["name"], first["file"]) == ("step", "bufferize", "recipes/steps/bufferize/step.yaml")
    assert second["tests"] == [other.id]


def test_breaches_of_a_contract_are_one_cause_whatever_is_left() -> None:
    left = (
        "1 operation that kind loops does not have: linalg.matmul",
        "3 operations that kind loops does not have: x.y at",
    )
    failed = [
        result(f"jax/loops/t/w{number}", "lower-failed", "linalg-to-loops", f"linalg-to-loops: left {words}")
        for number, words in enumerate(left)
    ]
    other = result("jax/loops/t/z", "lower-failed", "linalg-to-loops", "linalg-to-loops: crashes")
    assert [len(each["tests"]) for each in causes_of([*failed, other, *several(9, "jax/loops/t/p#")])] == [2, 1]


def test_tests_of_one_action_are_one_cause_however_they_fail() -> None:
    step: Any = {"name": "bufferize", "action": "bufferize-1"}
    one = result("jax/loops/t/a", "lower-failed", "bufferize", "bufferize: x", step=step)
    other = result("jax/fast/t/a", "timed-out", "bufferize", "bufferize: took 60 s", step=step)
    (found,) = causes_of([one, other])
    assert found["tests"] == ["jax/fast/t/a", "jax/loops/t/a"]


def test_equal_wrong_bits_are_one_cause() -> None:
    failed = [
        result(f"jax/p{n}/t/a", "mismatch", "judge/a", wrong_output="d" if n else "e", signal=str(n)) for n in range(3)
    ]
    assert [len(each["tests"]) for each in causes_of(failed)] == [2, 1]


def test_a_workload_whose_tests_fail_everywhere_is_one_cause() -> None:
    """For example by a bound that is too narrow: each program is wrong in its own way."""
    failed = [result(f"jax/p{n}/t/a", "mismatch", "judge/a", f"off by {n}", signal=str(n)) for n in range(5)]
    (found,) = causes_of([*failed, *several(9, "jax/p0/t/w#")])
    assert (found["kind"], found["name"], len(found["tests"])) == ("workload", "a", 5)
    assert found["title"] == "a: 5 of its 5 tests fail when they run: off by 0"


def test_an_ir_test_joins_what_its_step_breaks_later() -> None:
    """The fault of a step may only show in later ones, in many ways."""
    later = [
        *several(5, "jax/loops/t/w#", "codegen-failed", "object", "object: translation failed"),
        *several(3, "onnx/loops/t/w#", "lower-failed", "loops-to-llvm", "loops-to-llvm: op 'm#x' is odd"),
        *several(2, "jax/fast/t/w#", "mismatch", "judge/w#", "y: wrong"),
    ]
    (found,) = causes_of([*later, ir_test("linalg-to-loops"), *several(2, "onnx/fast/t/w#")])
    assert found["example"] == found["tests"][0] == "mlir/linalg-to-loops/ir/matmul"
    assert found["title"].startswith("linalg-to-loops: its IR test matmul fails: the IR does not match")
    assert len(found["tests"]) == 11
    assert found["file"] == "recipes/steps/linalg-to-loops/step.yaml"


def test_an_ir_test_takes_no_failures_if_most_tests_pass_its_step() -> None:
    failed = several(2, "jax/loops/t/w#", "codegen-failed", "object", "object: translation failed")
    names = [each["name"] for each in causes_of([*failed, ir_test("linalg-to-loops"), *several(9, "onnx/loops/t/w#")])]
    assert names == ["object", "linalg-to-loops"]


def test_two_faults_are_two_causes() -> None:
    """A step, and the packages of a framework, which fail before the step is reached."""
    by_step = several(5, "onnx/loops/t/w#", "codegen-failed", "object", "object: translation failed")
    by_import = several(6, "jax/loops/t/w#", "import-failed", "import/jax/w#", "AttributeError: no attribute w#")
    first, second = causes_of([*by_import, *by_step, ir_test("linalg-to-loops")])
    assert (first["kind"], first["name"], len(first["tests"])) == ("importer", "jax", 6)
    assert first["title"].startswith("import by jax: 6 of 6 tests that reach it fail there: AttributeError")
    assert (second["name"], len(second["tests"])) == ("linalg-to-loops", 6)


def test_wrong_numbers_of_many_workloads_are_the_fault_of_what_they_share() -> None:
    wrong = several(6, "jax/fast/t/w#", "mismatch", "judge/w#", "y: # of 9 elements are wrong")
    wrong = [TestResult(**{**each.to_fields(), "steps": ["bufferize", "tile", "object"]}) for each in wrong]
    (found,) = causes_of([*wrong, *several(6, "jax/loops/t/w#"), *several(6, "onnx/loops/t/w#")])
    assert (found["kind"], found["name"]) == ("step", "tile")
    assert found["title"].startswith("tile: 6 of 6 tests that go through tile fail when they run: y: 0 of 9")


def test_steps_that_nothing_tells_apart_are_not_accused() -> None:
    """Their pipeline is, if no other test goes through them."""
    wrong = several(6, "jax/fast/t/w#", "mismatch", "judge/w#", "y: # of 9 elements are wrong", next="bisect")
    wrong = [replace(each, steps=["tile", "unroll", "object"]) for each in wrong]
    passing = [replace(result("jax/fast/t/z"), steps=["tile", "unroll", "object"]), *several(6, "jax/loops/t/w#")]
    (found,) = causes_of([*wrong, *passing])
    assert (found["kind"], found["name"], found["file"]) == ("pipeline", "fast", "recipes/pipelines/fast.yaml")
    assert found["title"].startswith("fast: 6 of 7 tests that go through tile or unroll fail when they run: y: 0")
    assert found["next"] == "bisect"
    shared = [*wrong[:3], *(replace(each, pipeline="other") for each in wrong[3:])]
    (found,) = causes_of([*shared, *passing])
    assert (found["kind"], found["name"], "file" in found) == ("several", "tile or unroll", False)
    assert found["title"].startswith("tile or unroll: 6 of 7 tests that go through them fail when they run: y: 0")
    elsewhere = replace(result("jax/fast/t/y"), steps=["object"])
    (found,) = causes_of([*wrong, *passing, elsewhere])
    assert found["kind"] == "several"


def test_two_steps_with_wrong_numbers_are_two_causes() -> None:
    wrong = [
        replace(each, steps=["bufferize", step, "object"])
        for step in ("tile", "unroll")
        for each in several(4, f"jax/{step}/t/w#", "mismatch", "judge/w#", "y: wrong")
    ]
    causes = causes_of([*wrong, *several(9, "jax/loops/t/w#")])
    assert sorted((each["kind"], each["name"]) for each in causes) == [("step", "tile"), ("step", "unroll")]


def test_programs_that_fail_in_several_ways_accuse_no_step() -> None:
    ways = (
        ("crashed", "SIGFPE"), ("timed-out", "more than 4 s"), ("run-failed", "x"), ("mismatch", "y: wrong"),
        ("crashed", "SIGSEGV"),
    )  # fmt: skip
    failed = [
        result(f"mlir/fast/t/w{n}", outcome, f"run/w{n}", reason, signal=reason * (outcome == "crashed"))
        for n, (outcome, reason) in enumerate(ways)
    ]
    causes = causes_of([*failed, *several(2, "jax/loops/t/w#")])
    assert sorted((each["kind"], each["name"]) for each in causes) == [("workload", f"w{n}") for n in range(5)]
    crashed = several(4, "mlir/fast/t/w#", "crashed", "run/w#", "SIGFPE while at stage run", signal="SIGFPE")
    (found,) = causes_of([*crashed, *several(2, "jax/loops/t/w#")])
    assert len(found["tests"]) == 4


def test_weak_outputs_that_a_suite_refuses_accuse_no_step() -> None:
    output = {"name": "y", "outcome": "mismatch", "reason": "weak: zeros", "weak": ["all zeros"], "measurable": False}
    verdict: Any = {"outcome": "mismatch", "reason": "weak: zeros", "outputs": [output], "metrics": {}}
    failed = several(4, "jax/fast/t/w#", "mismatch", "judge/w#", "weak: zeros", verdict=verdict)
    assert {each["kind"] for each in causes_of(failed)} == {"workload"}


def test_wrong_numbers_of_one_workload_are_its_own() -> None:
    wrong = [
        result(f"{name}/loops/t/a", "mismatch", "judge/a", "y: 3 of 9 elements are wrong") for name in ("jax", "onnx")
    ]
    (found,) = causes_of([*wrong, *several(6, "jax/loops/t/w#")])
    assert (found["kind"], found["file"]) == ("workload", "matrix/workloads/a/workload.yaml")


def test_infrastructure_and_unexpected_passes_are_causes_of_their_own() -> None:
    lost = several(2, "jax/loops/t/w#", "infra-error", "bufferize", "no space left: /tmp/#")
    rule: Any = {"outcome": "mismatch", "reason": "a bug", "position": "matrix/suites/smoke.yaml:23:9"}
    passes = several(3, "jax/fast/t/w#", expected=False, expectation=rule)
    first, second = causes_of([*lost, *passes])
    assert first["title"] == "matrix/suites/smoke.yaml:23:9 expects mismatch: it passes"
    assert first["file"] == "matrix/suites/smoke.yaml"
    assert (second["kind"], second["title"]) == ("infrastructure", "no space left: /tmp/0")
    assert "file" not in second
    (found,) = causes_of([TestResult(**{**each.to_fields(), "position": "toolchains/locks/a:3"}) for each in lost])
    assert found["file"] == "toolchains/locks/a"


def test_a_key_stays_in_other_runs() -> None:
    failed = several(3, "jax/loops/t/w#", "lower-failed", "bufferize", "bufferize: '%#' is of size #")
    (one,) = causes_of([*failed, *several(9, "onnx/loops/t/w#")])
    (other,) = causes_of([*failed[1:], *several(9, "onnx/loops/t/w#")])
    assert one["key"] == other["key"]
    (third,) = causes_of([TestResult(**{**failed[0].to_fields(), "reason": "bufferize: another"})])
    assert third["key"] != one["key"]


@pytest.mark.parametrize(
    ("failed", "passed", "globs"),
    [
        (["jax/a/t/x", "jax/a/t/y", "onnx/a/t/x", "onnx/a/t/y"], ["jax/b/t/x"], ["*/a/t/*"]),
        (["jax/a/t/x", "jax/a/t/y"], ["onnx/a/t/x"], ["jax/a/t/*"]),
        (["jax/a/t/x", "jax/b/t/x"], ["jax/b/t/y"], ["jax/{a,b}/t/x"]),
        (["onnx/a/t/c:x", "onnx/a/t/c:y", "onnx/a/t/w"], [], ["onnx/a/t/c:*", "onnx/a/t/w"]),
        (["jax/a/t/x~scaling", "jax/a/t/y~scaling"], ["jax/a/t/x"], ["jax/a/t/*~scaling"]),
        (["jax/a/t/x@llvm=19", "jax/a/t/y@llvm=19"], ["jax/a/t/x@llvm=20"], ["jax/a/t/*@llvm=19"]),
    ],
)
def test_globs_match_the_tests_and_no_others(failed: list[str], passed: list[str], globs: list[str]) -> None:
    bad = [result(each, "lower-failed", "bufferize", "bufferize: x") for each in failed]
    (found,) = causes_of([*bad, *map(result, passed)])
    assert found["globs"] == globs
    matched = [each for each in [*failed, *passed] if any(test_glob(glob).matches(each) for glob in globs)]
    assert matched == failed


def test_globs_have_no_more_alternatives_than_patterns_may() -> None:
    failed = [f"jax/p/t/w{number}" for number in range(100)]
    (found,) = causes_of([*several(100, "jax/p/t/w#", "mismatch", "judge/w", "y: wrong"), *several(1, "jax/p/t/v#")])
    matched = [each for each in failed if any(test_glob(glob).matches(each) for glob in found["globs"])]
    assert (len(found["globs"]), matched) == (2, failed)


def test_results_documents_may_have_odd_identifiers() -> None:
    (odd,) = several(1, "jax/p/t/w#", "mismatch", "judge/w", "y: wrong")
    (found,) = causes_of([replace(odd, id="odd")])
    assert (found["tests"], found["globs"]) == (["odd"], [])


@pytest.mark.parametrize("action", ["compile", "link", "driver/x86_64-linux-musl"])
def test_what_a_target_does_is_no_step(action: str) -> None:
    failed = several(5, "jax/loops/jit/w#", "codegen-failed", action, "error #")
    (found,) = causes_of([*failed, *several(2, "onnx/loops/jit/w#"), *several(9, "onnx/loops/t/w#")])
    assert (found["kind"], found["file"]) == ("target", "matrix/targets/jit/target.yaml")
    assert found["title"].startswith("jit: 5 of 7 tests that reach it fail there: error")
    (found,) = causes_of([replace(each, steps=[action]) for each in failed])
    assert found["kind"] == "step", "which may have any name"
