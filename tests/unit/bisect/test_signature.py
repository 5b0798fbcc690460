"""Signatures: what is the same failure, and what cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.bisect.signature import PASS, signature
from mlir_matrix.judge.results import TestResult


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
        mismatch(3),
        mismatch(4),
        mismatch(3, nan_mismatches=3),
        mismatch(3, where="one element"),
    ]
    assert len({signature(each) for each in results}) == len(results)
    assert len({signature(each, "outcome") for each in results}) == 3


def test_words() -> None:
    crash = result("crashed", "SIGSEGV while at stage lower", signal="SIGSEGV", frame="f()", step=STEP)
    assert str(signature(crash)) == "crashed by SIGSEGV at object in f()"
    assert str(signature(mismatch(3, nan_mismatches=2))) == "mismatch, y: 3 of 9 elements are wrong (2 NaN)"


def test_outputs_by_their_bytes() -> None:
    passes = [signature(result("pass"), "output", {"y": digest * 8}) for digest in ("ab", "ab", "cd")]
    assert passes[0] == passes[1] != passes[2]
