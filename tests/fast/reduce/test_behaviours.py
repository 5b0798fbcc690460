"""A candidate shows a failure only if it fails at the same place for the same reason."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.reduce.behaviours import SameFailure, signature_of
from mlir_matrix.reduce.documents import By
from mlir_matrix.reduce.sides import Side
from mlir_matrix.reduce.workers import CandidateResult, Workers


def ended(label: str = "loops", reason: str = "'scf.for' op expected 3 blocks", **more: str) -> CandidateResult:
    outcome = {"outcome": Outcome.LOWER_FAILED, "stage": "lower", "reason": reason, "diagnostics": "", **more}
    return CandidateResult(outcome=outcome, label=label)


class OneSide:
    """Has no actions and no files."""

    runs = False
    files: dict[str, bytes] = {}  # noqa: RUF012 - stands for a field

    def requests(self, _interface: object, **_more: object) -> list[Any]:
        return []


class Answers:
    """Workers that give some answers, one after the other."""

    def __init__(self, *answers: CandidateResult) -> None:
        self.answers = [*answers]

    def run(self, *_arguments: object, **_more: object) -> CandidateResult:
        return self.answers.pop(0)


def refusal(
    wanted: CandidateResult, found: CandidateResult, by: By = "behaviour", good: CandidateResult | None = None
) -> str:
    behaviour = SameFailure(
        side=cast(Side, OneSide()),
        good=cast(Side, OneSide()) if good else None,
        wanted=signature_of(wanted),
        timeout_s=1.0,
        by=by,
    )
    return behaviour.refusal(None, "", cast(Workers, Answers(found, *([good] if good else []))))


PASSED = CandidateResult(outcome={"outcome": "ok", "stage": "", "reason": ""}, label="loops")


def test_a_candidate_that_fails_on_the_good_side_is_refused() -> None:
    assert refusal(ended(), ended(), good=PASSED) == ""
    assert (
        refusal(ended(), ended(), good=ended(reason="it reads memory")) == "the good side fails, too: it reads memory"
    )


def test_sizes_and_names_of_values_do_not_matter() -> None:
    found = ended(reason="'scf.for' op expected 7 blocks")
    assert refusal(ended(), found) == ""


@pytest.mark.parametrize(
    "found",
    [
        ended(label="canonical"),
        ended(reason="'scf.if' op expected 3 blocks"),
        ended(outcome=Outcome.TIMED_OUT),
        PASSED,
    ],
)
def test_another_failure_is_refused(found: CandidateResult) -> None:
    assert refusal(ended(), found) != ""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("'math.log2' is not lowered", "'math.exp2' is not lowered", False),
        ("no conversion of tensor<4x8xf32>", "no conversion of tensor<1x1xf32>", True),
        ("expected 'i64', got 13x7xf32", "expected 'i32', got 1x1xf32", True),
    ],
)
def test_names_of_operations_stay_and_types_do_not(one: str, other: str, same: bool) -> None:
    assert (refusal(ended(reason=one), ended(reason=other)) == "") is same


def test_a_crash_elsewhere_in_the_same_step_is_refused() -> None:
    def crash(frame: str) -> CandidateResult:
        text = f"#  {frame}\n" if frame else ""
        reason = "SIGSEGV while at stage lower"
        return ended(outcome=Outcome.CRASHED, reason=reason, signal="SIGSEGV", diagnostics=text)

    here = crash("mlir::fold(mlir::Operation*)")
    assert signature_of(here).frame
    assert refusal(here, here) == ""
    # One release has symbols or none, so that a missing frame is another crash.
    assert refusal(here, crash("")) != ""
    assert refusal(here, crash("mlir::other()")) != ""
    assert refusal(here, crash("mlir::other()"), by="outcome") == ""
