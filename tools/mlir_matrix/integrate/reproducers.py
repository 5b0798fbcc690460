"""Reduce the programs of tests that a commit of upstream broke."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.text import catalog_options
from mlir_matrix.environments.session import Session
from mlir_matrix.integrate.documents import IntegrationBreak
from mlir_matrix.integrate.integration import ExplainedBreak, Integration
from mlir_matrix.integrate.trials import Tried
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.reduced import Reduced
from mlir_matrix.reduce.report import write_report
from mlir_matrix.reduce.run import reduce_named

#: How long the program of a break is reduced, in seconds.
_BUDGET_S = 60.0


def reduce_breaks(
    component: str,
    found: Integration,
    entries: Sequence[IntegrationBreak],
    folder: Path,
    limits: Limits,
    listener: Listener,
) -> KeyboardInterrupt | None:
    """Reduce the first test of each break that upstream is at fault for into a folder of this one; note that in its entry.

    A test passes with the last good commit, so that a reduced program means something. Return an interruption, after which no
    further one is reduced.
    """
    for number, (broken, entry) in enumerate(zip(found.breaks, entries, strict=True), 1):
        if broken.fault != "upstream" or not entry["tests"] or entry["trouble"]:
            continue
        try:
            reduced = _reduced(component, found, broken, folder / f"reduced-{number}", limits, listener)
        except (UsageError, InfrastructureError) as error:
            entry["trouble"] = str(error)
        except KeyboardInterrupt as error:
            entry["trouble"] = "it was interrupted"
            return error
        else:
            _note(entry, reduced)
    return None


def _note(entry: IntegrationBreak, reduced: Reduced) -> None:
    """Note a reduction in an entry. The program of one that does not fail each time shows nothing."""
    entry["reduction"] = str(reduced.folder)
    if reduced.verified:
        entry["program"] = reduced.text
    else:
        entry["trouble"] = "in new processes, the reduced program does not fail in this way each time"


def _reduced(
    component: str, found: Integration, broken: ExplainedBreak, folder: Path, limits: Limits, listener: Listener
) -> Reduced:
    bad = _session_at(found, broken.found.shown_at, broken.tried)
    good = _session_at(found, broken.found.last_good, broken.good)
    reduced = reduce_named(bad, broken.found.tests[0], limits, _BUDGET_S, folder, good=good, listener=listener)
    write_report(reduced, [*catalog_options(bad.catalog.roots[1:]), "--pin", f"{component}={broken.tried.prefix}"])
    return reduced


def _session_at(found: Integration, point: int, tried: Tried) -> Session:
    """Return the session of a commit, with the patches that were applied there."""
    session, _, _ = found.trials_at(point).session_at(found.commits.ids[point], tried.applied.patches)
    return session
