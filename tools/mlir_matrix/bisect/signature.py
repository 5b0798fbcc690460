"""Describe how a test ended, so that two failures can be told apart: its signature.

Infrastructure errors, tests that were not run, and failures of the tool itself have no signature: nothing can be told from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.judge.results import NOT_RUN, TestResult

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.verdict import Census

#: What signatures are made of: everything that is known of a failure, the outcome alone, or the bytes of the outputs.
BY = ("behaviour", "outcome", "output")
_UNKNOWN = NOT_RUN | {Outcome.INFRA_ERROR}
#: What differs between runs or releases without a change of meaning: names of values, addresses, numbers, paths.
_NOISE = re.compile(r"%[\w$.#:-]+|0x[0-9a-f]+|\b\d+\b|(?:[\w.+-]*/)+[\w.+-]+")
_LONGEST = 200


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How a test ended. Two results with equal signatures are taken for the same behaviour."""

    outcome: Outcome
    stage: str = ""
    step: str = ""
    signal: str = ""
    frame: str = ""
    #: For example ``y: 5 of 44 elements are wrong``, or the first line of an error without numbers and names of values.
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"at {self.step or self.stage}" if self.outcome not in (Outcome.PASS, Outcome.MISMATCH) else ""
        by = f"by {self.signal}" if self.signal else ""
        frame = f"in {self.frame}" if self.frame else ""
        return ", ".join([" ".join(filter(None, (self.outcome, by, where, frame))), *self.details])


#: A pass has no details, unless outputs are compared by their bytes.
PASS = Signature(outcome=Outcome.PASS)


def signature(result: TestResult, by: str = "behaviour", outputs: Mapping[str, str] | None = None) -> Signature | None:
    """Return the signature of a result; None if nothing can be told from it. ``outputs``: digests of what the test computed."""
    if result.outcome in _UNKNOWN:
        return None
    if by == "outcome":
        return Signature(outcome=result.outcome)
    if by == "output" and outputs:
        return Signature(
            outcome=result.outcome, details=tuple(f"{name} {digest[:12]}" for name, digest in sorted(outputs.items()))
        )
    if result.outcome == Outcome.PASS:
        return Signature(outcome=result.outcome)
    step = str(result.step["name"]) if result.step else ""
    if result.verdict is not None and result.outcome == Outcome.MISMATCH:
        wrong = [each for each in result.verdict["outputs"] if each.get("wrong") or each["outcome"] == "mismatch"]
        return Signature(outcome=result.outcome, stage=result.stage, details=tuple(map(_mismatch, wrong)))
    return Signature(
        outcome=result.outcome, stage=result.stage, step=step, signal=result.signal, frame=result.frame,
        details=() if result.signal or result.outcome == Outcome.TIMED_OUT else (_shape(result.reason),),
    )  # fmt: skip


def _mismatch(output: Census) -> str:
    """Describe which elements of an output are wrong."""
    wrong, elements = output.get("wrong"), output.get("elements")
    if wrong is None:
        return f"{output['name']}: {_shape(output['reason'])}"
    what = f"{output['name']}: {wrong} of {elements} elements are wrong"
    kinds = [f"{count} {name}" for key, name in _KINDS.items() if (count := output.get(key))]
    where = output.get("where")
    return what + (f" ({', '.join(kinds)})" if kinds else "") + (f", {where}" if where else "")


_KINDS = {"nan_mismatches": "NaN", "inf_mismatches": "infinite"}


def _shape(message: str) -> str:
    """Return an error without what differs between two occurrences of it."""
    return _NOISE.sub("…", message.splitlines()[0] if message else "")[:_LONGEST]
