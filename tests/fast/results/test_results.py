"""Results: the outcome, whether it is expected, and what it took, for every way in which an action can end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mlir_matrix.execute.action_cache import LostBlob, Result
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.expansion import CostRule, Test
from mlir_matrix.expand.test_sets import Rule
from mlir_matrix.plan.graph import File, Graph, Produced
from mlir_matrix.results.documents import Costs, FinishedRun, JudgedCost
from mlir_matrix.results.report.failure_text import failure_text
from mlir_matrix.results.result_maker import ResultMaker, innermost_frame
from mlir_matrix.results.results import Run, TestResult, exit_code, outcomes_digest, summarise, to_document
from mlir_matrix.schema.export import adapter

_PASS = {"outcome": "pass", "reason": "all right", "metrics": {"elements": 4}}
VERDICTS = {
    "weak": {
        **_PASS,
        "outputs": [{"name": "x", "outcome": "pass", "weak": ["all zeros"]}, {"name": "y", "outcome": "pass"}],
    },
    "stated": {
        **_PASS,
        "outputs": [{"name": "x", "outcome": "pass", "weak": ["all zeros"], "weak_reason": "It is empty."}],
    },
    "good": {"outcome": "pass", "reason": "all right", "outputs": [], "metrics": {"max_ulp": 2}},
    "unmeasurable": {
        "outcome": "infra-error",
        "reason": "y: the golden is missing; matrix golden update --write makes it",
        "metrics": {},
        "outputs": [{"name": "x"}, {"name": "y", "measurable": False}],
    },
    "elsewhere": {
        "outcome": "mismatch",
        "reason": "y: from <1>/golden/t.yaml:1:1, <9>/golden/t.yaml:1:1",
        "metrics": {},
        "outputs": [{"name": "y", "layer": "<1>/golden/t.yaml:1:1"}],
    },
    "bad": {"outcome": "mismatch", "reason": "y: 3 of 4 are wrong", "outputs": [{"name": "y"}], "metrics": {}},
}


def case(expects: str = "", name: str = "mlp") -> Test:
    rule = Rule("expect", "suite.yaml:3:5", "**", "known", expects, "") if expects else None
    cell = ("jax", "linalg-loops", "x86_64")
    return Test("/".join((*cell, name)), *cell, name, "", None, None, None, "in by suite.yaml:1:1", rule, True)


def done(
    outcome: str = "ok",
    *,
    cached: bool = False,
    seconds: float = 1.0,
    poisons: int = 0,
    scaled: str = "",
    **outputs: str,
) -> Done:
    words = {"outcome": outcome, "stage": "judge" if outcome == "ok" else "lower"}
    if outcome == "ok":
        outputs = {"ir": "d" * 64, **outputs}
    else:
        words |= {"reason": "it failed", "diagnostics": "error: no"}
    measured = {"poisons": poisons, "scaled": scaled}
    metrics = {"log": "said", **{name: value for name, value in measured.items() if value}}
    result = Result(outcome=words, outputs=outputs, usage={"wall_s": seconds}, metrics=metrics)
    return Done(result=result, cached=cached)


PINS = {"jax": {"jax": "1"}, "mlir": {"llvm": "2"}, "numpy": {}}


class Made:
    """A graph of an import, a step and a judge, with a maker whose verdicts are those above."""

    def __init__(self, pins: Mapping[str, Mapping[str, str]] = PINS) -> None:
        self.read: list[str] = []
        graph = Graph()
        self.names: list[str] = []
        for tool, stage, environment in (
            ("import", "lower", "jax"), ("passes", "lower", "mlir"), ("judge", "judge", "numpy"),
        ):  # fmt: skip
            inputs = {"ir": Produced(self.names[-1], "ir") if self.names else File(0, "mlp.mlir")}
            self.names.append(
                graph.add(
                    tool,
                    tool=tool,
                    stage=stage,
                    environment=environment,
                    params={},
                    inputs=inputs,
                    outputs={"ir": "ir"},
                )
            )
        self.maker = ResultMaker(
            graph,
            pins=pins,
            digests={"jax": "aa", "mlir": "bb"},
            read_blob=self._read,
            roots=(Path("/here"), Path("../mine")),
        )

    def _read(self, digest: str) -> bytes:
        self.read.append(digest)
        if digest not in VERDICTS:
            raise LostBlob(digest, "is gone")
        return json.dumps(VERDICTS[digest]).encode()

    def result(self, test: Test, *steps: Done, costs: Costs | None = None) -> TestResult:
        """The result of a test whose three actions came to this."""
        for name, step in zip(self.names, steps, strict=True):
            self.maker.note(name, step)
        return self.maker.finished(test, self.names[-1], steps[-1], costs)


@pytest.fixture
def made() -> Made:
    return Made()


def test_no_release_is_hidden_by_another() -> None:
    """Code generation may have an LLVM of its own."""
    made = Made({"jax": {"llvm": "3", "numpy": "1"}, "mlir": {"llvm": "2"}, "numpy": {"numpy": "1"}})
    result = made.result(case(), done(), done(), done(verdict="good"))
    assert result.pins == {"llvm": "3, 2", "numpy": "1"}


def test_a_weak_pass_is_told_and_fails_where_the_suite_says_so(made: Made) -> None:
    result = made.result(case(), done(), done(), done(verdict="weak"))
    assert (result.outcome, result.expected, result.weak) == ("pass", True, {"x": ["all zeros"]})
    assert result.to_json()["weak"] == {"x": ["all zeros"]}
    strict = replace(case("mismatch"), weak_fails="suites/s.yaml:2:7")
    result = made.result(strict, done(), done(), done(verdict="weak"))
    assert (result.outcome, result.stage, result.expected) == ("mismatch", "judge", False)
    for words in ("weak: ", "x: all zeros", "suites/s.yaml:2:7"):
        assert words in result.reason
    assert [each["outcome"] for each in result.to_json()["verdict"]["outputs"]] == ["mismatch", "pass"]
    # The verdict itself is nobody's suite's.
    assert made.result(case(), done(), done(), done(verdict="weak")).outcome == "pass"


def test_a_pass_that_costs_more_is_slower_where_the_suite_says_so(made: Made) -> None:
    golden: JudgedCost = {
        "cost": "instructions", "value": 2, "golden": 1, "bound": 0, "position": "c.yaml:1:1", "verdict": "worse",
    }  # fmt: skip
    costs: Costs = {"exact": {"instructions": 2}, "absent": {}, "operations": {}, "compile": [], "judged": [golden]}
    steps = done(), done(), done(verdict="good")
    noted = made.result(replace(case(), cost=CostRule(False, "s.yaml:2:7")), *steps, costs=costs)
    assert (noted.outcome, noted.expected, noted.to_json()["costs"]) == ("pass", True, costs)
    strict = replace(case(), cost=CostRule(True, "s.yaml:2:7"))
    slower = made.result(strict, *steps, costs=costs)
    assert (slower.outcome, slower.stage, slower.expected) == ("slower", "judge", False)
    assert slower.reason == "instructions 2, golden 1 (+100.0 %), bound 0 (c.yaml:1:1)"
    assert "verdict" not in slower.to_json()
    # A wrong result is no better for being slow.
    assert made.result(strict, done(), done(), done(verdict="bad"), costs=costs).outcome == "mismatch"
    assert made.result(strict, *steps, costs={**costs, "judged": []}).outcome == "pass"


def test_a_pass_that_cannot_be_counted_is_not_judged(made: Made) -> None:
    absent = {"instructions": "counting failed: timeout: after 60 s"}
    costs: Costs = {"exact": {}, "absent": absent, "operations": {}, "compile": [], "judged": []}
    steps = done(), done(), done(verdict="good")
    strict = made.result(replace(case(), cost=CostRule(True, "s.yaml:2:7")), *steps, costs=costs)
    assert (strict.outcome, strict.reason) == ("infra-error", absent["instructions"])
    assert made.result(replace(case(), cost=CostRule(False, "s.yaml:2:7")), *steps, costs=costs).outcome == "pass"


def test_a_weak_pass_with_a_reason_is_a_pass(made: Made) -> None:
    result = made.result(replace(case(), weak_fails="suites/s.yaml:2:7"), done(), done(), done(verdict="stated"))
    assert (result.outcome, result.expected, result.weak) == ("pass", True, {})
    assert "weak" not in result.to_json()


def test_result_of_a_pass(made: Made) -> None:
    result = made.result(case(), done(seconds=1.0), done(seconds=0.5), done(seconds=0.25, verdict="good"))
    assert (result.outcome, result.stage, result.expected, result.cached) == ("pass", "judge", True, False)
    assert result.duration_s == 1.75
    assert result.pins == {"jax": "1", "llvm": "2"}
    assert result.environments == {"jax": "aa", "mlir": "bb"}
    assert result.metrics == {"max_ulp": 2}
    entry = result.to_json()
    assert "verdict" not in entry
    assert "diagnostics" not in entry


@pytest.mark.parametrize("poisons", [1, 2])
def test_a_pass_under_one_poison_value_says_so(made: Made, poisons: int) -> None:
    result = made.result(case(), done(), done(poisons=poisons), done(verdict="good"))
    assert result.metrics == {"max_ulp": 2, "poisons": poisons}
    assert ("one poison value only" in result.reason) == (poisons == 1)


@pytest.mark.parametrize(
    "steps",
    [(done(), done(verdict="good")), (done("lower-failed"), done("lower-failed"))],
    ids=["a pass", "a failure that is passed on"],
)
def test_what_was_made_smaller_is_told_of_each_outcome(made: Made, steps: tuple[Done, Done]) -> None:
    result = made.result(case(), done(scaled="N from 8 to 2"), *steps)
    assert result.scaled == "N from 8 to 2"
    assert result.to_json()["scaled"] == "N from 8 to 2"
    assert "scaled: N from 8 to 2\n" in failure_text(result.to_json())
    assert "scaled" not in made.result(case(), done(), *steps).to_json()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("no, from line 7 of source.py.", "no, from line 7 of models/a.py."),
        ('File "in/source.py", line 7, in forward', 'File "models/a.py", line 7, in forward'),
        ("_dynamo/source.py:3, resource.py, source.pyc, in/source.mlir", None),
    ],
)
def test_positions_name_the_file_of_the_catalog(made: Made, said: str, expected: str | None) -> None:
    first = made.maker._graph.actions[made.names[0]]
    made.maker._graph.actions[first.id] = replace(first, inputs={"source": File(0, "models/a.py")})
    outcome = {"outcome": "lower-failed", "stage": "lower", "reason": said, "diagnostics": said}
    failed = Done(result=Result(outcome=outcome), cached=False)
    result = made.result(case(), done(), failed, failed)
    assert (result.reason, result.diagnostics) == (f"passes: {expected or said}", expected or said)


def test_a_program_that_is_not_imported_is_told_as_scaled(made: Made) -> None:
    outcome = {"outcome": "import-failed", "stage": "import", "reason": "no", "diagnostics": ""}
    failed = Done(result=Result(outcome=outcome, metrics={"scaled": "N from 8 to 2"}), cached=False)
    assert made.result(case(), failed, failed, failed).reason == "import: no; scaled: N from 8 to 2"


def test_a_mismatch_shows_its_census(made: Made) -> None:
    result = made.result(case(), done(), done(), done(verdict="bad"))
    assert (result.outcome, result.expected) == ("mismatch", False)
    assert result.to_json()["verdict"] == VERDICTS["bad"]


def test_what_makes_a_missing_golden_makes_it_in_the_catalogs_of_the_run(made: Made) -> None:
    result = made.result(case(), done(), done(), done(verdict="unmeasurable"))
    assert result.reason == "y: the golden is missing; matrix golden update --write mlp --catalog ../mine makes it"


def test_a_failure_that_was_passed_on(made: Made) -> None:
    result = made.result(case(), done(), done("lower-failed"), done("lower-failed"))
    assert (result.outcome, result.stage, result.reason) == ("lower-failed", "lower", "passes: it failed")
    assert (result.diagnostics, result.log, result.expected) == ("error: no", "said", False)
    assert result.step == {"name": "passes", "action": made.names[1]}, "the first that failed"


def test_the_judge_decides_a_mismatch_and_nothing_is_said_of_a_pass(made: Made) -> None:
    wrong = made.result(case(), done(), done(), done(verdict="bad"))
    assert wrong.step == {"name": "judge", "action": made.names[2]}
    right = made.result(case(), done(), done(), done(verdict="good"))
    assert not right.to_json().keys() & {"step", "signal", "frame", "kept", "repeat"}


def test_a_crash_has_its_signal_and_its_frame(made: Made) -> None:
    crash = {"outcome": "crashed", "stage": "lower", "reason": "SIGSEGV", "signal": "SIGSEGV"}
    dead = Done(result=Result(outcome={**crash, "diagnostics": "#  mlir::f(int)\n#  main\n"}), cached=False)
    entry = made.result(case(), done(), dead, dead).to_json()
    assert (entry["signal"], entry["frame"]) == ("SIGSEGV", "mlir::f(int)")


@pytest.mark.parametrize(
    ("diagnostics", "frame"),
    [
        ("", ""),
        ("error: no\n", ""),
        ("error: no\n#  mlir::a(b<c, d>)\n#  main\n", "mlir::a(b<c, d>)"),
        (
            'Traceback (most recent call last):\n  File "lib/a.py", line 3, in outer\n    b()\n'
            '  File "mine/b.py", line 12, in inner\n    raise X\nX: no\n',
            "inner (mine/b.py:12)",
        ),
    ],
)
def test_innermost_frame(diagnostics: str, frame: str) -> None:
    assert innermost_frame(diagnostics) == frame


def test_a_failure_that_is_known_before_another_source_is_done() -> None:
    """A result is the same in whichever order actions end: all environments, and the cost of the failure alone."""
    graph = Graph()
    names = [
        graph.add(name, tool=name, stage="run", environment=name, params={}, inputs={}, outputs={"x": "x"})
        for name in ("mlir", "jax")
    ]
    inputs = {name: Produced(name, "x") for name in names}
    last = graph.add("run", tool="run", stage="run", environment="numpy", params={}, inputs=inputs, outputs={"x": "x"})
    found = []
    for finished in (names[:1], names):
        maker = ResultMaker(graph, pins=PINS, digests={"jax": "aa"}, read_blob=lambda digest: b"")
        for name in finished:
            maker.note(name, done("lower-failed" if name == names[0] else "ok", seconds=2.0))
        maker.note(last, done("lower-failed", seconds=0.0))
        found.append(maker.finished(case(), last, done("lower-failed")))
    assert found[0] == found[1]
    assert found[0].duration_s == 2.0
    assert found[0].environments == {"jax": "aa"}


def test_a_result_has_the_ir_that_its_steps_gave(made: Made) -> None:
    passed = made.result(case(), done(ir="a"), done(ir="b"), done(verdict="good"))
    assert passed.ir == (("import", "a"), ("passes", "b"))
    again = made.maker.finished(case(name="other"), made.names[-1], done(verdict="good"))
    # The history records it once for all tests that share it.
    assert again.ir is passed.ir
    failed = made.result(case(), done(ir="a"), done("lower-failed"), done("lower-failed"))
    assert failed.ir == (("import", "a"),)
    assert "ir" not in failed.to_fields() | failed.to_json()


def test_a_check_that_says_nothing_when_it_succeeds(made: Made) -> None:
    assert made.result(case(), done(), done(), done(report="r")).outcome == "pass"


@pytest.mark.parametrize("flags", list(product((True, False), repeat=3)))
def test_cached_is_only_what_was_cached_all_along(made: Made, flags: tuple[bool, bool, bool]) -> None:
    first, second, third = flags
    steps = (done(cached=first), done(cached=second), done(cached=third, verdict="good"))
    assert made.result(case(), *steps).cached == all(flags)


@pytest.mark.parametrize(
    ("expects", "verdict", "expected"),
    [
        ("", "good", True),
        ("", "bad", False),
        ("mismatch", "bad", True),
        ("mismatch", "good", False),
        ("crashed", "bad", False),
    ],
)
def test_expectations_are_strict(made: Made, expects: str, verdict: str, expected: bool) -> None:
    result = made.result(case(expects), done(), done(), done(verdict=verdict))
    assert result.expected == expected
    shown = result.to_json().get("expectation")
    assert shown == ({"outcome": expects, "reason": "known", "position": "suite.yaml:3:5"} if expects else None)


@pytest.mark.parametrize("expects", ["", "mismatch"])
def test_nobody_can_expect_that_there_is_nothing_to_compare_with(made: Made, expects: str) -> None:
    result = made.result(case(expects), done(), done(), done(verdict="unmeasurable"))
    assert (result.outcome, result.expected) == ("infra-error", False)
    assert exit_code([result]) == 2


def test_places_are_where_the_catalog_is(made: Made) -> None:
    result = made.result(case(), done(), done(), done(verdict="elsewhere"))
    assert result.reason == "y: from ../mine/golden/t.yaml:1:1, <9>/golden/t.yaml:1:1"
    assert result.verdict is not None
    assert result.verdict["outputs"][0]["layer"] == "../mine/golden/t.yaml:1:1"


def test_a_machine_that_lacks_something_surprises_nobody(made: Made) -> None:
    result = made.result(case("mismatch"), done("skipped"), done("skipped"), done("skipped"))
    assert (result.outcome, result.expected) == ("skipped", True)


def test_a_verdict_that_many_tests_come_to_is_read_once(made: Made) -> None:
    for name in ("mlp", "softmax", "topk"):
        assert made.result(case(name=name), done(), done(), done(verdict="good")).metrics == {"max_ulp": 2}
    assert made.read == ["good"]


def test_a_verdict_that_is_lost_can_be_made_again(made: Made) -> None:
    with pytest.raises(LostBlob):
        made.result(case(), done(), done(), done(verdict="gone"))


def results(*outcomes: tuple[str, bool]) -> Iterator[TestResult]:
    for number, (outcome, expected) in enumerate(outcomes):
        yield TestResult(
            id=f"a/b/c/{number}", framework="a", pipeline="b", target="c", workload=str(number), outcome=outcome,
            stage="", expected=expected, reason="", cached=number == 0,
        )  # fmt: skip


def test_summary_totals() -> None:
    found = list(results(("pass", True), ("mismatch", True), ("pass", True), ("crashed", False)))
    assert summarise(found) == {
        "total": 4,
        "as_expected": 3,
        "in_quarantine": 0,
        "by_outcome": {"crashed": 1, "mismatch": 1, "pass": 2},
        "cached": 1,
        "outcomes": outcomes_digest(found),
    }


def test_the_digest_of_outcomes_is_of_identifiers_and_outcomes_alone() -> None:
    one, other = list(results(("pass", True), ("mismatch", True))), list(results(("pass", True), ("pass", True)))
    assert outcomes_digest(one) == outcomes_digest(reversed(one)) != outcomes_digest(other)
    assert outcomes_digest(replace(result, duration_s=5.0, expected=False) for result in one) == outcomes_digest(one)


ABOUT: FinishedRun = {
    "version": "1", "command": "tools/matrix run", "host": "h", "catalogs": [{"folder": "/c", "commit": "0", "dirty": True}],
    "started": "2026-11-01T01:02:03.004Z", "ended": "2026-11-01T01:02:04.005Z",
}  # fmt: skip


def test_the_document_is_json_and_sorted() -> None:
    found = list(results(("pass", True)))
    run = Run(results=found, interruption=KeyboardInterrupt(), executed_actions=["b", "a"])
    document: dict[str, Any] = json.loads(json.dumps(to_document(run, ABOUT)))
    assert (document["schema"], document["run"]) == ("mlir-matrix/results/v1", ABOUT)
    assert (document["interrupted"], document["executed"], document["executed_actions"]) == (True, 2, ["a", "b"])
    assert document["tests"][0]["id"] == "a/b/c/0"


def test_the_schema_takes_a_result_with_every_key_and_no_other_key() -> None:
    (plain,) = results(("mismatch", True))
    entry = {"name": "y", "outcome": "mismatch", "reason": "r", "max_abs": "nan", "norms": {"l1": {"absolute": 1.0}}}
    full = replace(
        plain,
        tested_property="linear",
        expectation={"outcome": "mismatch", "reason": "known", "position": "s.yaml:1:1", "link": "https://x"},
        verdict={"outcome": "mismatch", "reason": "r", "outputs": [entry], "metrics": {"m": 1.0}},  # type: ignore[list-item]
        weak={"y": ["zeros"]},
        diagnostics="d",
        step={"name": "passes", "action": "passes-1"},
        signal="SIGSEGV",
        frame="f()",
        kept="/k",
        repeat="tools/matrix run a/b/c/0",
    )
    document: Any = to_document(Run(results=[full]), ABOUT)
    assert list(document["tests"][0])[4:7] == ["workload", "property", "outcome"]
    adapter("results").validate_python(document)
    document["tests"][0]["other"] = 1
    with pytest.raises(ValidationError, match="other"):
        adapter("results").validate_python(document)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([("pass", True), ("mismatch", True)], 0),
        ([("pass", True), ("mismatch", False)], 1),
        ([("infra-error", False)], 3),
        ([("infra-error", False), ("pass", False)], 1),
    ],
)
def test_exit_codes(outcomes: list[tuple[str, bool]], code: int) -> None:
    assert exit_code(results(*outcomes)) == code
