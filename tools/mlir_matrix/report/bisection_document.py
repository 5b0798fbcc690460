"""Write bisections as the document of ``matrix bisect``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.bisect.bisection import Bisection, ExplainedChange
from mlir_matrix.bisect.observations import Point
from mlir_matrix.report.schemas.bisect import BehaviourChange, BisectedTest, Bisections, ObservedPoint


def document(found: Sequence[Bisection], reports: Sequence[Path], log: str) -> Bisections:
    """Return the document; ``reports`` are the files of the bisections."""
    return {
        "schema": "mlir-matrix/bisect/v1",
        "tests": [_test(each, str(path)) for each, path in zip(found, reports, strict=True)],
        "summary": {"total": len(found), "changed": sum(bool(each.changes) for each in found)},
        "log": log,
    }


def _test(found: Bisection, report: str) -> BisectedTest:
    letters = found.behaviours
    return {
        "id": found.test,
        "component": found.axis.component,
        "points": [_point(found, each) for each in found.points],
        "behaviours": [
            {"name": letter, "outcome": signature.outcome, "description": str(signature)}
            for signature, letter in letters.items()
        ],
        "changes": [_change(found, each) for each in found.changes],
        "problem": found.problem,
        "commands": {step: list(lines) for step, lines in found.commands.steps.items()},
        "report": report,
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
        "step": difference.step if difference else None,
        "difference": list(difference.lines) if difference else [],
        "commits": explained.commits,
    }
