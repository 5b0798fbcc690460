"""Signatures: what is the same failure, and what cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlir_matrix.actions.numerics.census import CensusCounter
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.tools import judge
from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.driver import verdict
from mlir_matrix.bisect.search.search import ProbeVerdict
from mlir_matrix.bisect.signature import METRICS, By, signature
from mlir_matrix.expand.costs import CostBound
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import PASS, Signature, alike


def result(outcome: str, reason: str = "", **more: Any) -> TestResult:
    names = {"framework": "mlir", "pipeline": "p", "target": "t", "workload": "w"}
    given = {"stage": "lower", "expected": True, **more}
    return TestResult(id="mlir/p/t/w", **names, outcome=Outcome(outcome), reason=reason, **given)


def mismatch(wrong: int, **more: Any) -> TestResult:
    output = {"name": "y", "outcome": "mismatch", "reason": "r", "wrong": wrong, "elements": 9, **more}
    return result(
        "mismatch", stage="judge", verdict={"outputs": [output, {"name": "z", "outcome": "pass", "wrong": 0}]}
    )


STEP = {"name": "object", "action": "object-1"}


@pytest.mark.parametrize("outcome", ["unsupported", "skipped", "infra-error"])
def test_nothing_can_be_told_from_what_is_nobodys_verdict(outcome: str) -> None:
    assert signature(result(outcome)) is None


def test_a_pass_is_a_pass_whatever_it_measured() -> None:
    assert signature(result("pass", "9 elements", stage="judge")) == PASS == signature(result("pass", "8 elements"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("op 'a.b' expects 2 operands, %12", "op 'a.b' expects 2 operands, %arg3#1"),
        ("x.mlir:7:3: unknown op", "x.mlir:19:30: unknown op"),
        ("at 0x7f01 in /tmp/a/b.mlir", "at 0x55 in /home/c/b.mlir"),
        ("failed\nnote: here", "failed\nnote: there"),
    ],
)
def test_the_same_error_in_other_words(one: str, other: str) -> None:
    found = [signature(result("lower-failed", text, step=STEP)) for text in (one, other)]
    assert found[0] == found[1]


def test_what_tells_failures_apart() -> None:
    results = [
        result("lower-failed", "one error", step=STEP),
        result("lower-failed", "another error", step=STEP),
        result("lower-failed", "one error", step={**STEP, "name": "bufferize"}),
        result("crashed", "SIGSEGV while at stage lower", signal="SIGSEGV", frame="f()", step=STEP),
        result("crashed", "SIGSEGV while at stage lower", signal="SIGSEGV", frame="g()", step=STEP),
        result("crashed", "SIGABRT while at stage lower", signal="SIGABRT", frame="f()", step=STEP),
        result(
            "crashed", "SIGABRT while at stage lower: Assertion `x' failed", signal="SIGABRT", frame="f()", step=STEP
        ),
        mismatch(3),
        mismatch(3, nan_mismatches=3),
        mismatch(4, where="nearly everywhere"),
    ]
    assert len({signature(each) for each in results}) == len(results)
    assert len({signature(each, "outcome") for each in results}) == 3


def test_words() -> None:
    crash = result("crashed", "SIGSEGV while at stage lower", signal="SIGSEGV", frame="f()", step=STEP)
    assert str(signature(crash)) == "crashed by SIGSEGV at object in f()"
    assert str(signature(mismatch(3, nan_mismatches=2))) == "mismatch, y: wrong elements (NaN)"


@pytest.mark.parametrize(("one", "other"), [({}, {}), ({"nan_mismatches": 1}, {"nan_mismatches": 2})])
def test_the_number_of_wrong_elements_is_no_behaviour(one: dict[str, int], other: dict[str, int]) -> None:
    """One bug of a release gave 4578, 4579 and 4580, because other code around it rounds otherwise."""
    found = [signature(mismatch(count, where="scattered", **more)) for count, more in ((4578, one), (4580, other))]
    assert found[0] == found[1] != signature(mismatch(4578, where="every element", **one))


def wrong_at(places: Sequence[int], nan: bool = False) -> Signature | None:
    """The signature of 12 rows of 8 elements of which some are wrong, as a comparison finds them."""
    expected = np.ones((12, 8), dtype="f4")
    actual = expected.copy()
    actual.flat[places] = np.nan if nan else 2
    census = CensusCounter(expected.shape, "f32", criteria=Criteria(atol=0.5, rtol=0))
    census.add(actual, expected)
    output = {"name": "y", "outcome": "mismatch", "reason": "r", **census.result()}
    return signature(result("mismatch", stage="judge", verdict={"outputs": [output]}))


def test_one_more_wrong_element_is_no_other_behaviour() -> None:
    row, everywhere = [*range(40, 48)], [*range(96)]
    for one, more in (
        ([35], [35, 4]), ([35, 3], [35, 3, 80]), ([2, 35, 80], [2, 35, 61, 80]), (everywhere, everywhere[1:]),
        (row, [*row[:3], *row[4:]]), (everywhere[:20], everywhere[:30]), (everywhere[60:], everywhere[45:]),
        (everywhere[20:36], everywhere[20:46]),
    ):  # fmt: skip
        assert wrong_at(one) == wrong_at(more), (one, more)


def test_other_places_are_other_behaviours() -> None:
    everywhere = [*range(96)]
    found = [
        wrong_at([35]), wrong_at([35], nan=True), wrong_at(everywhere), wrong_at(everywhere, nan=True),
        wrong_at(everywhere[:16]), wrong_at(everywhere[80:]), wrong_at(everywhere[::8]), wrong_at(everywhere[1::8]),
        wrong_at(everywhere[::2]), wrong_at(everywhere[24:32]),
    ]  # fmt: skip
    assert len(set(found)) == len(found), found


CRASHES = [
    Signature(outcome=Outcome.CRASHED, stage="lower", step="object", signal="SIGSEGV", frame=frame)
    for frame in ("", "f()", "g()")
]


@pytest.mark.parametrize(
    ("some", "others", "expected"),
    [
        ((0,), (1,), True), ((1,), (0,), True), ((1,), (2,), False), ((0, 1), (1,), True), ((1, 2), (1,), False),
        ((1, 2), (0,), True), ((1,), (1,), True), ((), (), True), ((), (0,), False),
    ],
)  # fmt: skip
def test_an_unknown_frame_may_be_any(some: tuple[int, ...], others: tuple[int, ...], expected: bool) -> None:
    assert alike([CRASHES[each] for each in some], [CRASHES[each] for each in others]) is expected


def test_an_unknown_frame_is_of_the_same_crash() -> None:
    known = CRASHES[1]
    others = [replace(CRASHES[0], **each) for each in ({"signal": "SIGABRT"}, {"step": "run"}, {"details": ("x",)})]
    assert not any(map(known.alike, [*others, PASS]))


@pytest.mark.parametrize(
    "reason",
    [
        "import/mlir/w: the file does not parse: custom op 'func.func' is unknown",
        "bufferize: the IR does not parse: expected ':'",
        "import/circt/w: the source does not parse: expected ')'",
    ],
)
def test_a_release_that_cannot_read_a_program_tells_nothing(reason: str) -> None:
    found = result("lower-failed", reason, step=STEP)
    assert signature(found) is signature(found, "max_ulp") is signature(found, "output", {}) is None
    assert signature(found, wrote_it=True) is not None, "it cannot read what it wrote"
    assert signature(found, "outcome") == Signature(outcome=Outcome.LOWER_FAILED), "whoever asks when it was taken"
    crash = result("crashed", reason, signal="SIGSEGV", step=STEP)
    assert signature(crash) is not None
    assert signature(result("lower-failed", "bufferize: the pass pipeline does not parse", step=STEP)) is not None


def test_outputs_by_their_bytes() -> None:
    passes = [signature(result("pass"), "output", {"y": digest * 8}) for digest in ("ab", "ab", "cd")]
    assert passes[0] == passes[1] != passes[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("behaviour", By()),
        ("outcome", By("outcome")),
        ("time", By("time")),
        ("ir:bufferize", By("ir", "bufferize")),
        ("ir:2", By("ir", "2")),
        ("max_ulp", By("metric", "max_ulp")),
        ("max_ulp<=4", By("metric", "max_ulp", 4.0)),
        ("max_ulp>4", By("metric", "max_ulp", 4.0)),
        ("wrong < 1e2", By("metric", "wrong", 100.0, below=True)),
        ("max_abs>=inf", By("metric", "max_abs", float("inf"), below=True)),
    ],
)
def test_what_tells_results_apart(text: str, expected: By) -> None:
    assert By.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("behavior", "did you mean 'behaviour'?"),
        ("max_upl", "did you mean 'max_ulp'?"),
        ("max_upl>3", "did you mean 'max_ulp'?"),
        (
            "",
            "expected behaviour, outcome, output, time, ir:STEP, ir:NUMBER, METRIC or METRIC<=BOUND with one of max_ulp",
        ),
        ("ir:", "did you mean 'ir:STEP'?"),
        ("max_ulp>four", "'four' is no number"),
        ("max_ulp>nan", "'nan' is no number"),
        ("max_ulp=4", "expected"),
        ("max_ulp<=", "expected"),
    ],
)
def test_what_cannot_tell_results_apart(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        By.parse(text)
    assert words in str(caught.value)


def test_metrics_are_those_of_verdicts() -> None:
    assert set(judge._METRICS) | {"wrong", "elements"} <= set(METRICS)


def measured(outcome: str, **metrics: Any) -> TestResult:
    return result(outcome, stage="judge", metrics=metrics)


def test_a_metric_with_three_digits() -> None:
    found = [signature(measured("pass", max_ulp=value), "max_ulp") for value in (1.2341, 1.2339, 1.24)]
    assert found[0] == found[1] != found[2]
    assert str(signature(measured("mismatch", max_abs="inf"), "max_abs")) == "mismatch, max_abs inf"


def test_a_bound_makes_two_behaviours() -> None:
    results = [measured(outcome, max_ulp=value) for outcome, value in [("pass", 1), ("mismatch", 4), ("pass", 5)]]
    results += [measured("mismatch", max_ulp="inf"), measured("mismatch", max_ulp="nan")]
    at_most, less = ([str(signature(each, by)) for each in results] for by in ("max_ulp<=4", "max_ulp<4"))
    assert at_most == ["pass", "pass", *["mismatch, max_ulp > 4"] * 3]
    assert less == ["pass", *["mismatch, max_ulp >= 4"] * 4]


def test_without_a_metric_nothing_can_be_told_but_of_failures() -> None:
    assert signature(measured("pass"), "max_ulp") is None
    crash = result("crashed", "SIGSEGV while at stage run", stage="run", signal="SIGSEGV")
    assert signature(crash, "max_ulp>4") == signature(crash)


def test_ir_after_a_step_counts_whatever_becomes_of_it() -> None:
    after = {"ir after bufferize": "ab" * 8}
    assert signature(result("pass"), "ir:bufferize", after) == signature(result("crashed"), "ir:bufferize", after)
    assert signature(result("crashed"), "ir:bufferize", {}) == signature(result("crashed"))


def cost_of(
    value: float | None, outcome: str = "pass", by: str = "instructions", bound: str = "1 %"
) -> Signature | None:
    exact = {} if value is None else {"instructions": value}
    costs = {"exact": exact, "absent": {}, "operations": {}, "compile": []}
    return signature(result(outcome, stage="judge", costs=costs), by, bound=CostBound(text=bound))


def test_costs_differ_beyond_their_bound() -> None:
    first, near, far = (cost_of(value) for value in (1_000_000, 1_009_999, 1_010_001))
    assert first
    assert near
    assert far
    assert str(first) == "pass, instructions 1,000,000"
    assert first.alike(near)
    assert near.alike(first)
    assert near.alike(far)
    assert not first.alike(far)
    assert not far.alike(first)
    assert cost_of(None) is None
    failed = cost_of(5, "mismatch")
    assert failed is not None
    assert failed.outcome == "mismatch"
    assert failed.amount is None


def test_a_cost_may_have_a_bound_of_its_own() -> None:
    assert cost_of(100, by="instructions<=100") == PASS
    above = cost_of(101, by="instructions<=100")
    assert above is not None
    assert str(above) == "mismatch, instructions > 100"
    with pytest.raises(UsageError, match="did you mean 'instructions'"):
        By.parse("instruction")


COUNTS = st.integers(1, 10**9)


@given(COUNTS, COUNTS, COUNTS)
def test_in_a_search_a_cost_is_old_or_has_moved_to_the_new_one(old: int, new: int, seen: int) -> None:
    behaviours = [cost_of(value) for value in (old, new, seen)]
    first, last, between = (each for each in behaviours if each is not None)
    assume(not first.alike(last))
    found = verdict(between, first, last)
    if between.alike(first):
        assert found == ProbeVerdict.GOOD
    else:
        assert found == (ProbeVerdict.BAD if (seen > old) == (new > old) else ProbeVerdict.CANNOT_TELL)
    assert verdict(first, first, last) == ProbeVerdict.GOOD
    assert verdict(last, first, last) == ProbeVerdict.BAD
