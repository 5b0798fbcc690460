"""The report of a bisection names a test and two releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.log import Log
from mlir_matrix.bisect.observations import Observation
from mlir_matrix.bisect.signature import By
from mlir_matrix.reduce.bisected import Bisected, bisected
from mlir_matrix.results.results import TestResult

TEST = "mlir/p/t/w"
RELEASES = ["15", "16", "17", "18"]


def logged(folder: Path, outcomes: dict[int, str]) -> Path:
    log = Log(folder / "log.ndjson", RELEASES)
    log.begin([TEST], "llvm", [TEST])
    for point, word in outcomes.items():
        names: dict[str, Any] = {"framework": "mlir", "pipeline": "p", "target": "t", "workload": "w"}
        result = TestResult(id=TEST, **names, outcome=Outcome(word), stage="judge", expected=True, reason="")  # type: ignore[arg-type]
        log.observed(Observation(test=TEST, point=point, signature=None, result=result, limit_s=1.0), By())
    report = folder / TEST / "report.md"
    report.parent.mkdir(parents=True)
    report.touch()
    return report


@pytest.mark.parametrize(
    ("outcomes", "bad", "good"),
    [
        ({0: "pass", 2: "mismatch", 3: "mismatch"}, "17", "15"),
        ({0: "mismatch", 1: "mismatch", 3: "pass"}, "16", "18"),
        ({0: "pass", 1: "mismatch", 2: "pass", 3: "unsupported"}, "16", "15"),
    ],
)
def test_the_nearest_passing_and_failing_release_are_taken(
    tmp_path: Path, outcomes: dict[int, str], bad: str, good: str
) -> None:
    report = logged(tmp_path, outcomes)
    expected = Bisected(TEST, f"llvm={bad}", f"llvm={good}")
    assert bisected(report) == bisected(tmp_path) == bisected(tmp_path / "log.ndjson") == expected


def test_a_bisection_without_a_pass_or_a_failure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no test of it passes at one release and fails at another"):
        bisected(logged(tmp_path, {0: "mismatch"}))


def test_another_file_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a test nor in the folder of a bisection"):
        bisected(tmp_path)
