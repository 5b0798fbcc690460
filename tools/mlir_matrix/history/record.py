"""Record a run: its results in a file of the spool, and its executions in the summary of durations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import canonical, digest_bytes
from mlir_matrix.base.text import harmless
from mlir_matrix.fleet.durations import Execution, update_summary
from mlir_matrix.history.spool import SCHEMA, Spool, new_id
from mlir_matrix.results.results import NOT_RUN, Run, TestResult
from mlir_matrix.results.signature import UNKNOWN, behaviour, shape

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Cause, FinishedRun, InQuarantine

#: The kind of the causes that stand for tests in quarantine, whose failures have none.
QUARANTINE = "quarantine"
#: The most characters of the description of a behaviour.
LONGEST = 500


class Table:
    """Distinct values by key, in the order of their insertion."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._places: dict[object, int] = {}

    def place(self, key: object, value: object) -> int:
        found = self._places.setdefault(key, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


def record(
    state: Path, run: Run, about: FinishedRun, tests: Sequence[str], inputs: Mapping[str, str] | None = None
) -> tuple[str, list[str]]:
    """Record a run for ``matrix history``. Return its identifier in the spool, and warnings.

    Arguments:
        state: The folder of the user's state.
        run: What ran.
        about: The program, catalogs, host and times of the run.
        tests: The arguments of the command line that select tests.
        inputs: By test, the hexadecimal digest of all static inputs of its actions.
    """
    spool = Spool(state)
    if spool.is_off:
        return "", []
    recording = make_recording(
        new_id(), run.results, about, tests, inputs or {}, causes=run.causes, interrupted=run.interrupted
    )
    slow = update_summary(state, executions(run.results), about["ended"])
    try:
        recorded = spool.add(recording)
    except OSError as error:
        return "", [spool.trouble(error)]
    return recorded, [slow] if slow else []


def make_recording(
    identifier: str,
    results: Iterable[TestResult],
    about: FinishedRun,
    tests: Sequence[str],
    inputs: Mapping[str, str],
    *,
    causes: Iterable[Cause] = (),
    interrupted: bool = False,
) -> dict[str, Any]:
    """Return a run in the form of a file of the spool. Values that many tests share are in tables."""
    sets, behaviours, costs = Table(), Table(), dict[bytes, tuple[Mapping[str, float], list[int]]]()
    ir: dict[tuple[tuple[str, str], ...], list[int]] = {}
    rows: list[list[object]] = []
    failing: dict[str, list[int]] = defaultdict(list)
    quarantined: dict[str, tuple[InQuarantine, list[int]]] = {}
    by_object: dict[tuple[int, int], int] = {}
    for each in results:
        # By identity, because results share these objects.
        pair = id(each.pins), id(each.environments)
        if pair not in by_object:
            both = [dict(each.pins), dict(each.environments)]
            by_object[pair] = sets.place(canonical(both), both)
        metrics = each.metrics
        if each.fails:
            failing[each.id].append(len(rows))
        elif each.quarantine is not None:
            quarantined.setdefault(each.quarantine["position"], (each.quarantine, []))[1].append(len(rows))
        if each.costs:
            exact = each.costs["exact"]
            costs.setdefault(canonical(exact), (exact, []))[1].append(len(rows))
        if each.ir:
            ir.setdefault(each.ir, []).append(len(rows))
        rows.append(
            [
                each.id, _behaviour(behaviours, each), int(each.expected), int(each.cached), round(each.duration_s, 4),
                metrics.get("error_used"), metrics.get("max_ulp"), by_object[pair], inputs.get(each.id),
            ]
        )  # fmt: skip
    return {
        "schema": SCHEMA,
        "id": identifier,
        "run": about,
        "arguments": list(tests),
        "interrupted": interrupted,
        "sets": sets.values,
        "behaviours": behaviours.values,
        "causes": [
            [
                *(cause[name] for name in ("key", "kind", "name")),
                cause.get("file", ""),
                cause["title"],
                cause["example"],
                cause.get("next", ""),
                [row for test in cause["tests"] for row in failing[test]],
            ]
            for cause in causes
        ]
        + [
            [position, QUARANTINE, of["owner"], "", of["reason"], "", "", failed]
            for position, (of, failed) in quarantined.items()
        ],
        "costs": list(costs.values()),
        "ir": list(ir.items()),
        "tests": rows,
    }


def _behaviour(behaviours: Table, result: TestResult) -> int:
    """Return the index of a test's behaviour: outcome, stage, digest and text of its signature."""
    outcome, stage = str(result.outcome), str(result.stage)
    if outcome == Outcome.PASS:
        return behaviours.place((outcome, stage), [outcome, stage, "", ""])
    unknown = result.outcome in UNKNOWN
    text = harmless(shape(result.reason) if unknown else str(behaviour(result)))
    # The reason of an undecided test says nothing about the code under test.
    digest = "" if unknown else digest_bytes(text.encode(errors="backslashreplace"))[:16]
    return behaviours.place((outcome, stage, text), [outcome, stage, digest, text[:LONGEST]])


def executions(results: Iterable[TestResult]) -> list[Execution]:
    """Return the executions of the tests that a run decided."""
    return [
        Execution(each.id, each.duration_s, each.expected, each.cached)
        for each in results
        if each.outcome not in (*NOT_RUN, Outcome.INFRA_ERROR)
    ]
