"""Choose the command that helps most to find the cause of a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.results.cost_text import costs_that_are
from mlir_matrix.results.repeats import without_copy
from mlir_matrix.results.results import TestResult, is_refused

#: A function that returns the command of another verb (its words) for a test, with the options of the run.
Command = Callable[[Sequence[str], str], str]


def with_next(results: Sequence[TestResult], command: Command) -> list[TestResult]:
    """Return the results; ``next`` of an unexpected one is the command that helps most, if there is one."""
    found = []
    for result in results:
        words = _words(result) if result.fails else []
        found.append(replace(result, next=command(words, without_copy(result.id))) if words else result)
    return found


def _words(result: TestResult) -> list[str]:
    """Return a verb and its options."""
    step = result.step["name"] if result.step else ""
    is_compiler = result.stage in (Stage.LOWER, Stage.CODEGEN)
    if result.outcome == Outcome.INFRA_ERROR:
        return []
    if result.outcome == Outcome.SLOWER and not result.identity.pins:
        worse = [each["cost"] for each in costs_that_are("worse", result.costs)]
        return ["bisect", "--by", "instructions" if "instructions" in worse else worse[0]]
    if result.identity.is_ir:
        return ["ir", "--all"] if result.outcome == Outcome.MISMATCH else []
    if result.outcome == Outcome.CRASHED and is_compiler and not result.identity.pins:
        return ["bisect"]
    # The verb ir knows no link.
    if step == "link" or step.startswith("run/"):
        return ["ir", "--all"]
    if result.reason.startswith(f"{step}: the pass pipeline does not parse"):
        # The program is not at fault. This shows the passes with their parameters, and where they stand.
        return ["explain"]
    # Other actions than those of steps have names with a slash.
    if step and "/" not in step and (is_compiler or result.verdict is None):
        return ["reduce"]
    return _of_mismatch(result) if result.outcome == Outcome.MISMATCH and result.verdict is not None else []


def _of_mismatch(result: TestResult) -> list[str]:
    """Return a verb and its options for outputs that differ from the expected ones."""
    if is_refused(result):
        return ["golden", "explain"]
    if result.tested_property:
        return ["explain"]
    return ["bisect", "--over", "steps"]
