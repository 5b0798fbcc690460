"""Find the changes of measured values in the line of a test."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Literal

from mlir_matrix.history.trends import EARLIER, LATER, LEAST, error_grows, floored, is_other, ratio_of_times
from mlir_matrix.site.documents import SiteChange, SiteLine, SiteRun, SiteSeries, SiteTrend
from mlir_matrix.statistics.decision import FLOOR

if TYPE_CHECKING:
    from mlir_matrix.history.documents import SlowerTest

#: Exact costs whose changes are shown.
_COUNTS: Sequence[Literal["instructions", "code_bytes"]] = ("instructions", "code_bytes")


def changes_of(line: SiteLine) -> list[SiteChange]:
    """Return the changes of a line, by metric and run."""
    return [*_of_times(line), *_of_costs(line), *_of_error(line)]


def values_of(line: SiteLine, metric: str) -> list[tuple[int, float]]:
    """Return the runs of a line that have a metric, and its values: seconds, shares of the bound, or exact costs."""
    if metric == "seconds":
        return [(run, ms / 1000) for run, ms in zip(line["runs"], line["ms"], strict=True)]
    if metric == "error":
        return [(run, error) for run, error in zip(line["runs"], line["error"], strict=True) if error is not None]
    return [(run, exact[metric]) for run, exact in line["costs"] if metric in exact]


def _of_times(line: SiteLine) -> Iterator[SiteChange]:
    """Yield where executions took longer or shorter than those before: of neighbours, the surest one."""
    values = floored(line["ms"])
    if len(values) < LATER + LEAST or not is_other(max(values) / min(values)):
        return
    best, surest = 0, 0.0
    for at in range(LEAST, len(values) - LATER + 2):
        sure = _sureness(values[max(0, at - EARLIER) : at], values[at : at + LATER])
        if sure > surest:
            best, surest = at, sure
        elif surest and not sure:
            earlier, later = values[max(0, best - EARLIER) : best], values[best : best + LATER]
            yield {
                "metric": "seconds", "run": line["runs"][best],
                "before": median(earlier) / 1000, "after": median(later) / 1000,
            }  # fmt: skip
            best, surest = 0, 0.0


def _sureness(earlier: Sequence[int], later: Sequence[int]) -> float:
    """Return the end of the ratio's interval that is nearer to 1, at least 1; 0 if values are too few or no others."""
    if len(later) < LATER or not is_other(median(later) / median(earlier)):
        return 0.0
    _, low, high = ratio_of_times(later, earlier)
    near = low if low > 1 else 1 / high
    return near if is_other(near) else 0.0


def _of_costs(line: SiteLine) -> Iterator[SiteChange]:
    """Yield the changes of exact costs. One count is enough, because it repeats to the unit."""
    for metric in _COUNTS:
        for (_, before), (run, after) in pairwise(values_of(line, metric)):
            if abs(after - before) > FLOOR * before:
                yield {"metric": metric, "run": run, "before": before, "after": after}


def _of_error(line: SiteLine) -> Iterator[SiteChange]:
    """Yield that the error grows."""
    known = values_of(line, "error")
    grown = error_grows([error for _, error in known])
    if grown:
        first, _, before, after = grown
        yield {"metric": "error", "run": known[first][0], "before": before, "after": after}


def slower_since(
    trends: Sequence[SiteTrend], series: Sequence[SiteSeries], runs: Sequence[SiteRun], since: str
) -> list[SlowerTest]:
    """Return the tests that became slower since a time: those whose last values began to suffice for that then."""
    found: list[SlowerTest] = []
    for trend in trends:
        change, metric = trend["change"], trend["change"]["metric"]
        if trend["factor"] <= 1 or metric not in ("seconds", "instructions"):
            continue
        at = bisect_left(trend["runs"], change["run"])
        low = high = trend["factor"]
        if metric == "seconds":
            enough = at + LATER - 1
            values = floored(round(seconds * 1000) for seconds in trend["values"])
            _, low, high = ratio_of_times(values[at : at + LATER], values[max(0, at - EARLIER) : at])
        else:
            enough = at
        # The last costs stand for all later runs.
        if enough < len(trend["runs"]) and runs[trend["runs"][enough]]["started"] >= since:
            found.append({
                "id": trend["test"], "host": series[trend["series"]]["host"], "cost": metric,
                "before": change["before"], "after": change["after"], "factor": trend["factor"],
                "interval": [round(low, 3), round(high, 3)],
            })  # fmt: skip
    return found
