"""Write bisections as the document of ``matrix bisect``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.bisect.bisection import Bisection, ExplainedChange
from mlir_matrix.report.schemas.bisect import BehaviourChange, BisectedTest, Bisections


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
        "points": [
            {
                "release": release,
                "behaviour": letters[each.signature] if each.signature else None,
                "outcome": each.result.outcome,
                "reason": each.result.reason,
                "duration_s": round(each.result.duration_s, 4),
                "cached": each.result.cached,
            }
            for release, each in zip(found.axis.releases, found.observations, strict=True)
        ],
        "behaviours": [
            {"name": letter, "outcome": signature.outcome, "description": str(signature)}
            for signature, letter in letters.items()
        ],
        "changes": [_change(found, each) for each in found.changes],
        "commands": {step: list(lines) for step, lines in found.commands.steps.items()},
        "report": report,
    }


def _change(found: Bisection, explained: ExplainedChange) -> BehaviourChange:
    change, releases, difference = explained.change, found.axis.releases, explained.difference
    return {
        "kind": explained.word,
        "before": releases[change.before],
        "after": releases[change.after],
        "between": [releases[point] for point in change.between],
        "step": difference.step if difference else None,
        "difference": list(difference.lines) if difference else [],
        "commits": explained.commits,
    }
