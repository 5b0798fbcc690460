"""Choose the best pipelines of each workload on each target by evidence: those that no other one beats (the Pareto set).

A pipeline beats another one if it is certainly better in one criterion and certainly worse in none. Counts are exact. A difference
of times is certain if it is larger than the noise of their measurements. So two rows can be equal to a third one but not to each
other, and a pipeline that is beaten only by beaten ones is among the best.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.actions.outcomes import RIGHT, Outcome
from mlir_matrix.base.names import TestId
from mlir_matrix.compare.documents import Number
from mlir_matrix.cost.documents import BeatenTest, BestDocument, BestTest, Contest, Contestant
from mlir_matrix.results.documents import Costs
from mlir_matrix.results.results import NOT_RUN, TestResult

#: The criteria in the order of reports, all of which are better the smaller they are.
CRITERIA = ("time_ns", "instructions", "code_bytes", "compile_s", "error")
#: The CPU time of a compilation, which is measured once, repeats to within about this share.
_COMPILE_NOISE = 0.25
#: Smaller differences of the time of a call do not matter.
_TIME_FLOOR = 0.02


@dataclass(frozen=True, kw_only=True)
class Row:
    """A test that ran, with what is known of it."""

    test: TestId
    outcome: Outcome
    reason: str
    values: Mapping[str, float]
    #: By criterion that is not known, the reason.
    absent: Mapping[str, str]
    #: Half of the interval of the time of a call, as a share of it.
    time_noise: float = 0.0


def row_of(test: TestId, outcome: Outcome, reason: str, metrics: Mapping[str, Number], costs: Costs | None) -> Row:
    """Return the row of a test: its criteria, as far as its costs and the verdict have them."""
    found: Costs = costs or {"exact": {}, "absent": {}, "operations": {}, "compile": []}
    exact = found["exact"]
    values = {name: float(exact[name]) for name in CRITERIA if name in exact}
    time_noise = 0.0
    if "time" in found:
        time = found["time"]
        values["time_ns"] = time["ns"]
        time_noise = (time["high"] - time["low"]) / 2 / time["ns"]
    if found["compile"]:
        values["compile_s"] = sum(each["cpu_s"] for each in found["compile"])
    if "error_used" in metrics:
        values["error"] = float(metrics["error_used"])
    reasons = {name: found["absent"].get(name.removesuffix("_ns"), "it was not measured") for name in CRITERIA}
    absent = {name: reason for name, reason in reasons.items() if name not in values}
    return Row(test=test, outcome=outcome, reason=reason, values=values, absent=absent, time_noise=time_noise)


def rows_of(results: Iterable[TestResult]) -> list[Row]:
    """Return the rows of the tests that ran and take part in contests: those of properties compare other programs."""
    return [
        row_of(TestId.parse(result.id), result.outcome, result.reason, result.metrics, result.costs)
        for result in results
        if result.outcome not in NOT_RUN and not result.tested_property
    ]


def better_in(one: Row, other: Row, noise: Mapping[str, float]) -> list[str]:
    """Return the criteria in which one row is certainly better than another; none unless it beats it.

    ``noise``: by criterion that is compared, the share below which a difference says nothing. At most two criteria may have noise:
    then rows cannot beat each other in a circle.
    """
    better = []
    for name, share in noise.items():
        mine, its = one.values[name], other.values[name]
        if mine > its * (1 + share):
            return []
        if mine * (1 + share) < its:
            better.append(name)
    return better


def contests(rows: Sequence[Row]) -> BestDocument:
    """Return the Pareto set of each workload on each target, and for each other test which one beats it and in what.

    Tests are compared in the criteria that all of them have. Those that do not pass take no part, and stand with their reasons.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.test.called, row.test.target), []).append(row)
    found = [_contest(*names, group) for names, group in sorted(groups.items())]
    return {
        "schema": "mlir-matrix/best/v1",
        "summary": {
            "contests": len(found),
            "tests": len(rows),
            "best": sum(len(each["best"]) for each in found),
            "failing": sum(len(each["failing"]) for each in found),
        },
        "contests": found,
    }


def _contest(workload: str, target: str, rows: Sequence[Row]) -> Contest:
    passing = [row for row in rows if row.outcome in RIGHT]
    noise = {name: 0.0 for name in CRITERIA if passing and all(name in row.values for row in passing)}
    if "time_ns" in noise:
        noise["time_ns"] = max(_TIME_FLOOR, *(row.time_noise for row in passing))
    if "compile_s" in noise:
        noise["compile_s"] = _COMPILE_NOISE
    best, beaten = _split(passing, noise)
    return {
        "workload": workload,
        "target": target,
        "criteria": list(noise),
        "noise": {name: round(share, 4) for name, share in noise.items() if share},
        "not_compared": _not_compared(passing, noise),
        "best": [_member(row, best, noise) for row in sorted(best, key=lambda row: _rank(row, noise))],
        "beaten": sorted(beaten, key=lambda each: each["test"]),
        "failing": {str(row.test): f"{row.outcome}: {row.reason}" for row in rows if row.outcome not in RIGHT},
    }


def _split(rows: Sequence[Row], noise: Mapping[str, float]) -> tuple[list[Row], list[BeatenTest]]:
    """Return the rows that no row of this list beats, and the others with the one of the list that beats them in most."""
    best: list[Row] = []
    beaten: list[BeatenTest] = []
    remaining = list(rows)
    while remaining:
        free = [row for row in remaining if not any(better_in(other, row, noise) for other in remaining)]
        assert free
        best += free
        undecided = []
        for row in remaining:
            if row in free:
                continue
            winner = max(free, key=lambda other: len(better_in(other, row, noise)))
            better = better_in(winner, row, noise)
            if better:
                beaten.append({**_contestant(row), "by": str(winner.test), "better_in": better})
            else:
                undecided.append(row)
        remaining = undecided
    return best, beaten


def _rank(row: Row, criteria: Iterable[str]) -> tuple[object, ...]:
    """Return the key that sorts by the first criterion, then by the next ones."""
    return (*(row.values[name] for name in criteria), row.test)


def _contestant(row: Row) -> Contestant:
    return {
        "test": str(row.test),
        "framework": row.test.framework,
        "pipeline": row.test.pipeline,
        "values": {name: round(row.values[name], 6) for name in CRITERIA if name in row.values},
    }


def _member(row: Row, best: Sequence[Row], noise: Mapping[str, float]) -> BestTest:
    """Return a member of the set, with the criteria in which no other member is certainly better."""
    lowest = {name: min(other.values[name] for other in best) for name in noise}
    first = [name for name, share in noise.items() if row.values[name] <= lowest[name] * (1 + share)]
    return {**_contestant(row), "first_in": first}


def _not_compared(passing: Sequence[Row], criteria: Collection[str]) -> dict[str, str]:
    """Return the criteria that some tests lack, with the first of these and its reason."""
    found = {}
    for name in CRITERIA:
        if name not in criteria and passing:
            row = next(each for each in passing if name in each.absent)
            found[name] = f"{row.test}: {row.absent[name]}"
    return found
