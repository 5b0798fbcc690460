"""Results of runs, made up for the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.history.first_bad import first_bad_by_cause
from mlir_matrix.history.questions import Questions
from mlir_matrix.history.record import make_recording
from mlir_matrix.history.spool import new_id
from mlir_matrix.results.results import NOT_RUN, TestResult

if TYPE_CHECKING:
    from mlir_matrix.history.documents import FirstBadTest
    from mlir_matrix.results.documents import Cause

#: A year of days.
TIMES = [f"2026-{1 + day // 28:02}-{1 + day % 28:02}T12:00:00.000Z" for day in range(336)]


def result(
    name: str, outcome: str = "pass", reason: str = "", *, seconds: float = 1.0, cached: bool = False, **more: Any
) -> TestResult:
    """One test of a run; one that does not pass is unexpected."""
    names = {"framework": "jax", "pipeline": "p", "target": "t", "workload": name}
    expected = outcome == "pass" or outcome in NOT_RUN
    given = {"stage": "judge" if outcome == "pass" else "run", "expected": expected, **more}
    return TestResult(
        id=f"jax/p/t/{name}",
        **names,
        outcome=Outcome(outcome),
        reason=reason,
        duration_s=seconds,
        cached=cached,
        **given,
    )


def recording(
    results: Iterable[TestResult],
    day: int = 0,
    *,
    commit: str = "c" * 40,
    host: str = "one",
    inputs: Mapping[str, str] | None = None,
    causes: Iterable[Cause] = (),
    **more: Any,
) -> dict[str, Any]:
    """A run of some results, on a day of the year."""
    about: Any = {
        "version": "1", "command": "matrix run", "host": host, "started": TIMES[day], "ended": TIMES[day],
        "catalogs": [{"folder": "/catalog", "commit": commit, "dirty": False}],
    }  # fmt: skip
    return {**make_recording(new_id(), results, about, ["smoke"], inputs or {}, causes=causes), **more}


def first_bad(questions: Questions, patterns: Sequence[str]) -> tuple[Sequence[FirstBadTest], int]:
    """Return the tests that are bad when last decided, and how many there are."""
    answer = first_bad_by_cause(questions, patterns)
    return answer["tests"], answer["summary"]["tests"]
