"""Make the document of an integration."""

from __future__ import annotations

from collections.abc import Sequence

from mlir_matrix.integrate.carried import kinds_of
from mlir_matrix.integrate.changes import FileCommit
from mlir_matrix.integrate.documents import (
    CarriedPatch,
    IntegrationBreak,
    IntegrationDocument,
    UpstreamCommit,
    WithReverts,
)
from mlir_matrix.integrate.integration import ExplainedBreak, Integration
from mlir_matrix.integrate.verdicts import PatchVerdict
from mlir_matrix.reduce.subject import why_not_reducible


def unmoved_document(component: str, commit: UpstreamCommit) -> IntegrationDocument:
    """Return the document where there is nothing to integrate."""
    return {
        "schema": "mlir-matrix/integration/v1",
        "component": component,
        "start": commit,
        "newest": commit,
        "furthest": commit,
        "pin": commit,
        "complete": True,
        "assumed": "",
        "broken_before": [],
        "flaky": {},
        "breaks": [],
        "renames": [],
        "patches": [],
        "reverts": None,
        "changes": [],
        "not_proposed": "",
        "branches": [],
        "patches_to_apply": [],
        "folder": "",
        "summary": {"commits": 0, "trials": 0, "tests": 0, "seconds": 0.0, "breaks": 0, "needed": 0},
    }


def document_of(
    component: str, found: Integration, changes: Sequence[FileCommit], seconds: float
) -> IntegrationDocument:
    """Return the document. Its branches, folder and reports are empty until they are written."""
    document = unmoved_document(component, _commit(found, found.commits.good))
    document["newest"] = _commit(found, found.commits.bad)
    document["furthest"] = _commit(found, found.best)
    document["pin"] = _commit(found, found.target)
    document["complete"] = found.is_complete
    tried = len(found.walk.seen)
    document["assumed"] = f"what is broken at two of the {tried} commits that were tried is broken at those between"
    document["broken_before"] = sorted(found.walk.before)
    document["flaky"] = dict(sorted(found.trials.flaky.items()))
    document["breaks"] = [_break(found, each) for each in found.breaks]
    document["renames"] = [
        {"step": rename.step, "old": rename.old, "new": rename.new, "culprit": _commit(found, culprit)}
        for culprit, rename, _ in found.renames
    ]
    document["patches"] = [_patch(each) for each in found.verdicts]
    document["reverts"] = _reverts(found)
    document["changes"] = [each.subject for each in changes]
    document["summary"] = {
        "commits": len(found.commits.ids) - 1,
        "trials": len(found.trials.built),
        "tests": found.at_target.ran,
        "seconds": round(seconds, 3),
        "breaks": len(found.breaks),
        "needed": sum(each.state == "needed" for each in found.verdicts),
    }
    return document


def _commit(found: Integration, point: int) -> UpstreamCommit:
    return {"commit": found.commits.ids[point], "subject": found.commits.subjects[point]}


def _break(found: Integration, each: ExplainedBreak) -> IntegrationBreak:
    results = each.tried.results_of(each.found.tests)
    return {
        "kind": each.found.kind,
        "fault": each.fault,
        "because": each.because,
        "patch": each.patch,
        "tests": list(each.found.tests),
        "outcome": str(results[0].outcome) if results else each.found.kind,
        "reason": results[0].reason if results else each.found.behaviour,
        "culprits": [_commit(found, point) for point in each.found.candidates],
        "shown_at": _commit(found, each.found.shown_at),
        "last_good": _commit(found, each.found.last_good),
        "builds": each.found.builds,
        "behind": list(each.behind),
        "pin": str(each.tried.prefix),
        "report": "",
        "program": "",
        "reduction": "",
        "trouble": why_not_reducible(results[0]) if results else "",
    }


def _patch(each: PatchVerdict) -> CarriedPatch:
    return {
        "name": each.patch.name,
        "subject": each.patch.subject,
        "says": list(kinds_of(each.patch)),
        "state": each.state,
        "reason": each.reason,
        "commit": each.commit,
        "tests": list(each.tests),
        "refreshed": each.refreshed,
    }


def _reverts(found: Integration) -> WithReverts | None:
    if found.reverted is None:
        return None
    return {
        "newest": _commit(found, found.commits.ids.index(found.reverted.commit)),
        "reverts": [each.subject for each in found.reverted.reverts],
        "green": not found.reverted.trouble,
        "trouble": found.reverted.trouble,
    }
