"""Distinguish results by the criterion of a bisection: behaviour, outcome, outputs, a metric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Literal, get_args

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.models.costs import NAMES, is_cost
from mlir_matrix.expand.costs import CostBound
from mlir_matrix.results.cost_text import number
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import PASS, UNKNOWN, Signature, behaviour

#: Criteria of signatures: all details of a failure, only the outcome, the bytes of the outputs, or times.
Whole = Literal["behaviour", "outcome", "output", "time"]
BY: tuple[Whole, ...] = get_args(Whole)
#: Metrics of verdicts: the largest errors of all outputs, and numbers of elements, operations and poisons.
METRICS = ("max_ulp", "max_abs", "max_rel", "error_used", "wrong", "elements", "operations", "poisons")
#: What tools and importers print if a release cannot parse a program.
NO_BOUND = CostBound()
_UNREADABLE = re.compile(r"(?:[^:]*: )?the (?:file|IR|source) does not parse\b")
_CRITERION = re.compile(r"(?:(?P<step>ir:)(?P<name>.+)|(?P<metric>\w+)\s*(?:(?P<sign>[<>]=?)\s*(?P<bound>[^\s<>=]+))?)")


@dataclass(frozen=True)
class By:
    """The criterion that distinguishes results."""

    kind: Literal[Whole, "ir", "metric", "cost"] = "behaviour"
    #: The step or its number; the metric; the cost.
    name: str = ""
    #: Values of the metric or the cost up to this one are one behaviour, larger ones another. ``below``: the bound is one of
    #: the larger.
    bound: float | None = None
    below: bool = False

    @classmethod
    def parse(cls, text: str) -> By:
        """Read ``outcome``, ``ir:bufferize``, ``ir:2``, ``max_ulp``, ``max_ulp<=4`` or ``instructions``. Raise UsageError."""
        for kind in BY:
            if text == kind:
                return cls(kind)
        found = _CRITERION.fullmatch(text)
        is_cost_word = found is not None and not found["step"] and is_cost(found["metric"])
        if found is None or (not found["step"] and found["metric"] not in METRICS and not is_cost_word):
            near = did_you_mean(
                found["metric"] if found and found["metric"] else text, [*BY, *METRICS, *NAMES, "ir:STEP"]
            )
            raise UsageError(
                f"--by {printable(text)}: expected {', '.join(BY)}, ir:STEP, ir:NUMBER, "
                f"METRIC or METRIC<=BOUND with one of {', '.join(METRICS)}, or an exact cost such as instructions{near}"
            )
        if found["step"]:
            return cls("ir", found["name"])
        bound, below = _bound(text, found["bound"]), found["sign"] in ("<", ">=")
        return cls("cost" if is_cost_word else "metric", found["metric"], bound, below)


def _bound(text: str, word: str | None) -> float | None:
    """Read the bound of a metric."""
    try:
        bound = None if word is None else float(word)
    except ValueError:
        bound = nan
    if bound is not None and isnan(bound):
        raise UsageError(f"--by {printable(text)}: '{printable(str(word))}' is no number")
    return bound


def signature(
    result: TestResult,
    by: By | str = "behaviour",
    outputs: Mapping[str, str] | None = None,
    *,
    wrote_it: bool = False,
    bound: CostBound = NO_BOUND,
) -> Signature | None:
    """Return the signature of a result; None if the result says nothing about the code under test.

    ``outputs``: digests of the outputs by name, or, for ``ir:STEP``, of the IR after the step. If a release cannot read a program,
    the result says nothing, unless the release itself wrote that text (``wrote_it``). ``bound``: how much a cost may differ.
    """
    if result.outcome in UNKNOWN:
        return None
    by = By.parse(by) if isinstance(by, str) else by
    if by.kind == "outcome":
        return Signature(outcome=result.outcome)
    if not wrote_it and not result.signal and _UNREADABLE.match(result.reason):
        return None
    if by.kind in ("output", "ir") and outputs:
        digests = tuple(f"{name} {digest[:12]}" for name, digest in sorted(outputs.items()))
        # The IR counts even if a later step fails.
        return Signature(outcome=result.outcome if by.kind == "output" else Outcome.PASS, details=digests)
    if by.kind == "metric" and result.stage == Stage.JUDGE:
        return _measured(result, by, result.metrics)
    if by.kind == "cost" and result.outcome == Outcome.PASS:
        exact = result.costs["exact"] if result.costs else {}
        if by.bound is not None or by.name not in exact:
            return _measured(result, by, exact)
        value = exact[by.name]
        words = f"{by.name} {number(value)}"
        return Signature(outcome=result.outcome, details=(words,), amount=value, allowed=bound.allowed(value))
    return behaviour(result)


def _measured(result: TestResult, by: By, values: Mapping[str, Any]) -> Signature | None:
    """Return on which side of a bound a metric or cost is, or its value with three digits; None if it is not known."""
    if by.name not in values:
        return None
    # JSON has no infinity.
    value = float(values[by.name])
    if by.bound is None:
        return Signature(outcome=result.outcome, details=(f"{by.name} {value:.3g}",))
    if value < by.bound or (value == by.bound and not by.below):
        return PASS
    return Signature(outcome=Outcome.MISMATCH, details=(f"{by.name} {'>=' if by.below else '>'} {by.bound:.15g}",))
