"""Write bisections as the document of ``matrix bisect``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.bisect.bisection import Bisection, ExplainedChange
from mlir_matrix.bisect.documents import BehaviourChange, BisectedTest, Bisections, ObservedPoint
from mlir_matrix.bisect.observations import Point
from mlir_matrix.bisect.report.words import scaled


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What a bisection found for a test, and where its report is."""

    bisection: Bisection
    report: Path
    log: Path


def bisection_document(found: Sequence[Reported]) -> Bisections:
    """Return the document of ``matrix bisect``."""
    return {
        "schema": "mlir-matrix/bisect/v1",
        "tests": [_test(each) for each in found],
        "summary": {"total": len(found), "changed": sum(bool(each.bisection.changes) for each in found)},
    }


def _test(reported: Reported) -> BisectedTest:
    found = reported.bisection
    letters = found.behaviours
    return {
        "id": found.test,
        "component": found.axis.component,
        "scaled": scaled(found),
        "points": [_point(found, each) for each in found.points],
        "behaviours": [
            {"name": letter, "outcome": signature.outcome, "description": str(signature)}
            for signature, letter in letters.items()
        ],
        "changes": [_change(found, each) for each in found.changes],
        "problem": found.problem,
        "commands": {step: list(lines) for step, lines in found.commands.steps.items()},
        "report": str(reported.report),
        "log": str(reported.log),
    }


def _point(found: Bisection, point: Point) -> ObservedPoint:
    result = point.shown.result
    return {
        "release": found.axis.names[point.index],
        "behaviour": found.letters(point.known) if point.known else None,
        "observations": {found.behaviours[each]: count for each, count in point.behaviours.items()},
        "outcome": result.outcome,
        "reason": result.reason,
        "duration_s": round(result.duration_s, 4),
        "cached": result.cached,
    }


def _change(found: Bisection, explained: ExplainedChange) -> BehaviourChange:
    change, releases, difference = explained.change, found.axis.names, explained.difference
    return {
        "kind": explained.word,
        "before": releases[change.before],
        "after": releases[change.after],
        "candidates": [releases[point] for point in explained.candidates],
        "marked": [releases[point] for point in sorted(explained.marked)],
        "confidence": round(explained.confidence, 4),
        "step": difference.step or None if difference else None,
        "difference": list(difference.lines) if difference else [],
        "not_compared": difference.problem if difference else "",
        "commits": explained.commits,
    }
