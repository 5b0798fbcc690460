"""Compute the signature of a result, which describes how a test ended, to distinguish failures.

Infrastructure errors, tests that did not run, and failures of the tool itself have no signature, because they say nothing about
the code under test.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.results.results import NOT_RUN, TestResult

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import Census, Verdict

#: Outcomes that say nothing about the code under test.
UNKNOWN = NOT_RUN | {Outcome.INFRA_ERROR}
#: Text that differs between runs or releases without a change of meaning: names of values, addresses, numbers, paths.
_NOISE = re.compile(r"%[\w$.#:-]+|0x[0-9a-f]+|\b\d+\b|(?:[\w.+-]*/)+[\w.+-]+")
_LONGEST, _READ = 200, 1000
_KINDS = {"nan_mismatches": "NaN", "inf_mismatches": "infinite"}
#: Fewer wrong elements may be in one row, or next to each other, by chance.
_FEW = 4
#: Words that depend on the exact number of wrong elements, and their replacements.
_COUNTED = (
    (re.compile(r"every element"), "nearly everywhere"),
    (re.compile(r"one element"), "scattered"),
    (re.compile(r", all of it"), ""),
    (re.compile(r"(?<=indices )(>= |< )?\d+(?: to \d+)?"), r"\1…"),
)


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How a test ended. Two results with equal signatures count as the same behaviour."""

    outcome: Outcome
    stage: str = ""
    step: str = ""
    signal: str = ""
    frame: str = ""
    #: For example ``y: wrong elements (NaN), scattered``, or the first line of an error without numbers and names of values.
    details: tuple[str, ...] = ()
    #: If results are told apart by a cost: its value, and how much another one may differ and be the same behaviour.
    amount: float | None = None
    allowed: float = 0.0

    @property
    def passes(self) -> bool:
        return self.outcome == Outcome.PASS

    def alike(self, other: Signature) -> bool:
        """Return whether two results may be the same behaviour. A missing frame matches any, because some releases lack symbols."""
        if self.amount is not None and other.amount is not None:
            return abs(self.amount - other.amount) <= min(self.allowed, other.allowed)
        if self.frame and other.frame:
            return self == other
        return replace(self, frame="") == replace(other, frame="")

    def __str__(self) -> str:
        where = f"at {self.step or self.stage}" if self.outcome not in (Outcome.PASS, Outcome.MISMATCH) else ""
        by = f"by {self.signal}" if self.signal else ""
        frame = f"in {self.frame}" if self.frame else ""
        return ", ".join([" ".join(filter(None, (self.outcome, by, where, frame))), *self.details])


#: A pass has no details, unless outputs are compared by their bytes.
PASS = Signature(outcome=Outcome.PASS)


def alike(some: Collection[Signature], others: Collection[Signature]) -> bool:
    """Return whether each behaviour of one group may be one of the other group, and vice versa."""
    return all(any(map(one.alike, others)) for one in some) and all(any(map(one.alike, some)) for one in others)


def behaviour(result: TestResult) -> Signature:
    """Return the signature of a test whose outcome says something about the code under test."""
    if result.outcome == Outcome.PASS:
        return Signature(outcome=result.outcome)
    step = str(result.step["name"]) if result.step else ""
    if result.verdict is not None and result.outcome == Outcome.MISMATCH:
        details = tuple(map(mismatch_words, wrong_outputs(result.verdict)))
        return Signature(outcome=result.outcome, stage=result.stage, details=details)
    reason = result.reason.removeprefix(f"{step}: ")
    if result.signal:
        # What a crash says: the text of an assertion, or what a sanitizer has found.
        reason = reason.partition(f"{result.signal} while at stage {result.stage}")[2].removeprefix(": ")
    details = (shape(reason),) if reason and result.outcome != Outcome.TIMED_OUT else ()
    return Signature(
        outcome=result.outcome, stage=result.stage, step=step, signal=result.signal, frame=result.frame, details=details
    )


def behaviour_of_run(result: TestResult) -> Signature:
    """Return the signature of a test that ends when it runs, without the name of the action: the workload or target is in it."""
    return replace(behaviour(result), step="")


def wrong_outputs(verdict: Verdict) -> list[Census]:
    """Return the outputs that are not as expected."""
    return [each for each in verdict["outputs"] if each.get("wrong") or each["outcome"] == "mismatch"]


def mismatch_words(output: Census) -> str:
    """Describe which elements of an output are wrong, without their number, which varies with rounding and machine."""
    wrong, where = output.get("wrong"), output.get("where") or ""
    if wrong is None:
        return f"{output['name']}: {shape(output['reason'].removeprefix(output['name'] + ': '))}"
    what = f"{output['name']}: wrong elements"
    kinds = [name for key, name in _KINDS.items() if output.get(key)]
    if where and wrong < _FEW:
        where = "scattered"
    for pattern, both in _COUNTED:
        where = pattern.sub(both, where)
    return what + (f" ({', '.join(kinds)})" if kinds else "") + (f", {where}" if where else "")


def shape(message: str) -> str:
    """Return the first line of an error, without text that differs between its occurrences."""
    # The expression takes quadratic time for a word of megabytes.
    first = message[:_READ].splitlines()[:1]
    return _NOISE.sub("…", first[0])[:_LONGEST] if first else ""
