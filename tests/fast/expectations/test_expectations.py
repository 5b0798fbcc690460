"""Proposals of expectations: what was found is what the written file expects, and then nothing is left to propose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import CensusCounter
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.catalog.models.suites import Expectations
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.test_sets import Rule
from mlir_matrix.expectations.expectations import ExpectedFailure, expected_by, normalised, propose, text
from mlir_matrix.results.results import TestResult

NO_LINKS: Mapping[tuple[str, ExpectedFailure], str] = {}
NEVER = {Outcome.TIMED_OUT, Outcome.INFRA_ERROR, Outcome.SKIPPED, Outcome.UNSUPPORTED}
cells = st.sampled_from(["mlir/a/x86_64", "onnx/b/x86_64", "mlir/a/x86_64@llvm=19"])
called = st.sampled_from(
    ["mlp", "corpus:test_1", "corpus:1", "1e5", "12", "null", "Yes", "0x1", "mlp~twice", "on", "corpus:ä"]
)
reasons = st.one_of(
    st.text(),
    st.sampled_from(["failed at %12 of 2x?xf32", "failed at %7 of 4x4x8xf32", 'ü \u2028 \x85 \x00 \ud800 # : "', "'"]),
)


@st.composite
def results(draw: st.DrawFn) -> dict[str, TestResult]:
    made = {}
    for cell, name in draw(st.sets(st.tuples(cells, called))):
        path, mark, pins = cell.partition("@")
        outcome = draw(st.sampled_from(Outcome))
        made[f"{path}/{name}{mark}{pins}"] = result(f"{path}/{name}{mark}{pins}", outcome, draw(reasons))
    return made


def result(test: str, outcome: Outcome = Outcome.LOWER_FAILED, reason: str = "") -> TestResult:
    framework, pipeline, target, workload = test.partition("@")[0].split("/")
    return TestResult(
        id=test, framework=framework, pipeline=pipeline, target=target, workload=workload.partition("~")[0],
        outcome=outcome, stage="lower", expected=outcome == Outcome.PASS, reason=reason,
    )  # fmt: skip


def case(name: str, expectation: Rule | None = None) -> Test:
    first, second, third, fourth = name.partition("@")[0].split("/")
    return Test(name, first, second, third, fourth, "", None, None, None, "in", expectation, True)


def loaded(written: str) -> dict[str, ExpectedFailure]:
    return expected_by(Expectations.model_validate(parse(written, "s.yaml").data))


@given(results(), results())
def test_what_is_written_expects_what_was_found(before: dict[str, TestResult], found: dict[str, TestResult]) -> None:
    tests = {name: case(name) for name in before | found}
    old = propose({}, tests, before).expected
    proposal = propose(old, tests, found)
    again = loaded(text("s", proposal.expected, NO_LINKS))
    assert again == proposal.expected
    after = propose(again, tests, found)
    assert (after.expected, after.changes) == (proposal.expected, [])
    failing = {name for name, each in found.items() if each.outcome not in {Outcome.PASS, *NEVER}}
    kept = {name for name in old if name not in found or found[name].outcome in NEVER}
    assert set(proposal.expected) == failing | kept
    assert {each["test"] for each in proposal.left} <= {name for name, each in found.items() if each.outcome in NEVER}


def test_groups_and_states() -> None:
    names = [f"mlir/p/t/{name}" for name in ("a", "b", "c", "d", "e")]
    old = {name: ExpectedFailure("lower-failed", "no op") for name in (*names[1:4], "mlir/p/t/removed")}
    found = {
        names[0]: result(names[0], reason="no op"),
        names[1]: result(names[1], Outcome.PASS, "all right"),
        names[2]: result(names[2], Outcome.CRASHED, "SIGSEGV"),
        names[3]: result(names[3], reason="no op"),
        names[4]: result(names[4], reason="no op"),
    }
    changes = propose(old, {name: case(name) for name in names}, found).changes
    assert [(each["state"], each["outcome"], each["reason"], each["was"], each["tests"]) for each in changes] == [
        ("new", "lower-failed", "no op", "", ["a", "e"]),
        ("changed", "crashed", "SIGSEGV", "lower-failed: no op", ["c"]),
        ("gone", "", "is not a test of the suite that can run", "lower-failed: no op", ["removed"]),
        ("gone", "pass", "all right", "lower-failed: no op", ["b"]),
    ]


def test_what_is_left() -> None:
    """Rules by hand, quarantine and outcomes that cannot be measured are nothing to write down."""
    names = [f"mlir/p/t/{name}" for name in ("hand", "other", "flaky", "missing")]
    rule = Rule("expect", "s.yaml:3:5", "**", "so it is", "lower-failed")
    tests = {name: case(name, rule if name in names[:2] else None) for name in names}
    flaky = replace(
        result(names[2]),
        quarantine={"owner": "ada", "until": "2030-01-01", "reason": "sleeps", "position": "q.yaml:2:1"},
    )
    verdict: dict[str, object] = {"outputs": [{"name": "y", "measurable": False}]}
    missing = replace(result(names[3], Outcome.MISMATCH, "no golden"), verdict=verdict)  # type: ignore[arg-type]
    found = {
        names[0]: result(names[0]),
        names[1]: result(names[1], Outcome.CRASHED),
        names[2]: flaky,
        names[3]: missing,
    }
    proposal = propose({}, tests, {**found, "mlir/p/t/unknown": result("mlir/p/t/unknown")})
    assert (proposal.expected, proposal.changes) == ({}, [])
    assert {each["test"].rpartition("/")[2]: each["reason"] for each in proposal.left} == {
        "other": "s.yaml:3:5 expects lower-failed: change it there",
        "flaky": "in quarantine: sleeps (q.yaml:2:1)",
        "missing": "nothing was compared: no golden",
        "unknown": "is not a test of the suite that can run",
    }


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("failed to legalize operation 'torch.operator' (onnx.Loop)", "failed to legalize operation 'torch.operator' (onnx.Loop)"),
        ("tensor<2x?x4xf32> at %12", "tensor<…xf32> at …"),
        ("y: 5 of 44 elements are wrong, off by 5.09e-05, f32", "y: … of … elements are wrong, off by …, f32"),
        ("shapes [1, 2, 3] and [4]", "shapes […] and […]"),
        ("/tmp/x/a.mlir:12:3: bad", "…:…:…: bad"),
        ("first\nsecond", "first"),
    ],
)  # fmt: skip
def test_reasons_lose_what_differs(reason: str, expected: str) -> None:
    assert normalised(reason) == expected
    assert normalised(expected) == expected


def mismatch(actual: Any, expected: Any, dtype: str = "f32", name: str = "y", **bounds: float) -> dict[str, Any]:
    """An output as the judge compares it."""
    census = CensusCounter(np.shape(expected), dtype, criteria=Criteria(**{"atol": 0.0, "rtol": 0.0, **bounds}))
    census.add(np.asarray(actual, dtypes.STORAGE[dtype]), np.asarray(expected, dtypes.golden_storage(dtype)))
    return {"name": name, "outcome": "mismatch", "reason": f"{name}: 3 of 9 elements", **census.result()}


def reason(*outputs: dict[str, Any]) -> str:
    """The reason that is written for a test with these wrong outputs."""
    name = "mlir/p/t/a"
    verdict: Any = {"outcome": "mismatch", "reason": "r", "outputs": outputs, "metrics": {}}
    found = replace(result(name, Outcome.MISMATCH, "y: 3 of 9 elements are wrong"), verdict=verdict)
    return propose({}, {name: case(name)}, {name: found}).expected[name].reason


ONES = np.ones((12, 8))


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([mismatch(ONES * 1.5, ONES, rtol=0.1)], "y: wrong elements, nearly everywhere, off by up to 100 times the bound"),
        ([mismatch(ONES * 2, ONES, rtol=0.001)], "y: wrong elements, nearly everywhere, off by more than 100 times the bound"),
        ([mismatch(ONES * np.nan, ONES, rtol=1)], "y: wrong elements (NaN), nearly everywhere"),
        ([mismatch(ONES * np.inf, ONES, rtol=1)], "y: wrong elements (infinite), nearly everywhere"),
        ([mismatch([1, 2, 3, 9], [1, 2, 3, 4], "i32")], "y: wrong elements, scattered, and they must be equal"),
        ([{"name": "y", "outcome": "mismatch", "reason": "y: no output, 7 bytes"}], "y: no output, … bytes"),
        (
            [mismatch(ONES * 1.5, ONES, rtol=0.1, name="\x1b1"), mismatch(ONES * np.nan, ONES)],
            r"\x1b1: wrong elements, nearly everywhere, off by up to 100 times the bound; "
            "y: wrong elements (NaN), nearly everywhere",
        ),
        ([], "y: … of … elements are wrong"),
    ],
)  # fmt: skip
def test_reasons_of_mismatches(outputs: list[dict[str, Any]], expected: str) -> None:
    assert reason(*outputs) == expected


def test_reasons_of_mismatches_do_not_depend_on_rounding() -> None:
    """One more wrong element, and errors that are a little larger: machines with and without AVX-512 differ so."""
    row = ONES.copy()
    row[5] = 1.5
    shorter = row * (1 + 1e-6)
    shorter[5, 3] = 1
    assert reason(mismatch(row, ONES, rtol=0.1)) == reason(mismatch(shorter, ONES, rtol=0.1))
    assert reason(mismatch(row, ONES, rtol=0.1)) != reason(mismatch(row.T, ONES.T, rtol=0.1))


def test_a_link_stays_with_its_group() -> None:
    failure = ExpectedFailure("lower-failed", "no op")
    written = text("s", {"mlir/p/t/a": failure}, {("mlir/p/t", failure): "https://example.org/7"})
    (group,) = Expectations.model_validate(parse(written, "s.yaml").data).expect
    assert group.link == "https://example.org/7"


def test_many_tests_are_one_line_each(tmp_path: Path) -> None:
    expected = {f"mlir/p/t/c:{number}": ExpectedFailure("lower-failed", "no op") for number in range(3)}
    assert text("s", expected, NO_LINKS).splitlines()[2:] == [
        "expect:", "  - outcome: lower-failed", '    reason: "no op"', "    cell: mlir/p/t", "    tests:",
        "      - c:0", "      - c:1", "      - c:2",
    ]  # fmt: skip
