"""Return the results of an earlier run while nothing that they depend on has changed.

Results are kept only if all outcomes are as expected, and if no environment depends on programs on PATH.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.paths import find_home, repository
from mlir_matrix.execute.kept_answers import KeptAnswers, covers
from mlir_matrix.plan.request import FAILED, ExecutorOptions, Request
from mlir_matrix.results.results import Run, TestResult

if TYPE_CHECKING:
    from mlir_matrix.plan.documents import Selection
    from mlir_matrix.plan.graph import Graph


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A run, and the pins of its command line."""

    run: Run
    pins: Mapping[str, str]
    #: What selected tests beside suites and globs, and lines for the user about the tests left out.
    selection: Selection | None = None
    left_out: Sequence[str] = ()
    #: The identifier of the run in the history; empty if it is not recorded.
    recorded: str = ""


class UnchangedRuns:
    """Finds and keeps the results of one command line."""

    def __init__(self, request: Request) -> None:
        # Other executors use programs of this machine, --repeat wants new results, and --keep the files of passing tests.
        local = request.executor == ExecutorOptions(devices=request.executor.devices)
        usable = local and request.selection.repeats and not request.times and request.keep == FAILED
        roots = [repository(), *request.catalogs]
        self._answers = KeptAnswers(roots, find_home(cache_dir=request.cache_dir), request.words(), usable=usable)

    def find(self) -> KeptRun | None:
        """Return the results of an unchanged run, or None."""
        kept = self._answers.find()
        try:
            if kept is None:
                return None
            run = Run(results=[TestResult(**each) for each in kept["results"]])
            return KeptRun(run=run, **{key: kept[key] for key in ("pins", "selection", "left_out", "recorded")})
        except (TypeError, KeyError):
            return None

    def keep(self, report: KeptRun, graph: Graph) -> None:
        """Keep the results of a run if the next run gives the same."""
        run = report.run
        known = not (run.executed or run.interrupted) and all(map(_is_lasting, run.results))
        if not (known and covers(graph)) or run.relied is None:
            return
        results = [each.to_fields() for each in run.results]
        answer: dict[str, Any] = {"pins": dict(report.pins), "selection": report.selection}
        answer |= {"left_out": report.left_out, "recorded": report.recorded, "results": results}
        # What JSON cannot hold is not what the next run gives.
        if json.loads(json.dumps(results)) == results:
            self._answers.keep(answer, run.relied)


def _is_lasting(result: TestResult) -> bool:
    """Return whether a result is what an unchanged run gives again.

    What is skipped before anything is planned is known by granted devices and the CPU; an environment may become available.
    """
    skipped_unplanned = result.outcome == Outcome.SKIPPED and not result.stage
    return result.expected and (result.cached or result.outcome == Outcome.UNSUPPORTED or skipped_unplanned)
