"""Make the data of a site from a history: all of it, or only what runs since the last build add."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, cast

from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import milliseconds
from mlir_matrix.history.checked import BAD, GOOD
from mlir_matrix.history.columns import Columns
from mlir_matrix.history.sides import Failing
from mlir_matrix.results.results import TestResult
from mlir_matrix.site.cells import NOTHING, CellHistory, RunIndex, trends_of
from mlir_matrix.site.documents import SiteCell, SiteColumn, SiteLine, SiteRun, SiteSeries, SiteTests, SiteTrend
from mlir_matrix.site.publish import Publication
from mlir_matrix.site.support_part import latest_results

#: The most changed series, those with the largest factors.
_TRENDS = 500
_COLUMNS = ("outcome", "error", "seconds", "age", "since")


class Damaged(Exception):
    """Raised if a file of the build before is damaged."""


class Data(NamedTuple):
    """What the data files of a site have, as far as its pages need it."""

    series: list[SiteSeries]
    runs: list[SiteRun]
    #: In the order of the columns.
    tests: list[str]
    failing: list[Failing]
    trends: list[SiteTrend]
    #: The last result of each test on each machine.
    results: list[TestResult]


def put_data(publication: Publication, columns: Columns, now: str, *, known: int) -> Data:
    """Write the documents of cells, tests, columns and trends.

    Raise Damaged.

    Arguments:
        publication: Gets the documents.
        columns: The history.
        now: The time of the build.
        known: The number of runs that the cells of the build before have, which the others are added to. 0: make all anew.
    """
    runs = RunIndex(columns)
    cells: dict[str, list[int]] = defaultdict(list)
    for key, test in columns.tests.items():
        # Old programs allowed other names; no page has a place for them.
        with suppress(ValueError):
            cells[cell_of(test)].append(key)
    new = [key for key, (index, _) in runs.places.items() if index >= known]
    changed = set(columns.tests_of(new)) if known else set(columns.tests)
    latest: dict[str, dict[int, tuple[str, ...]]] = {}
    trends: list[SiteTrend] = []
    failing: list[Failing] = []
    results: list[TestResult] = []
    now_ms = milliseconds(now)
    for name, keys in sorted(cells.items()):
        is_known = bool(known) and publication.before is not None and name in publication.before["files"]
        document = publication.published(name) if is_known else None
        if is_known and document is None:
            raise Damaged(name)
        cell = CellHistory(columns, runs, document)
        added = changed.intersection(keys)
        if added:
            cell.add(columns.results(added, new if known else None))
        # Unchanged, it need not be written; one that is lost since is.
        is_kept = is_known and not added and publication.keep(name)
        if cell.document["tests"] and not is_kept:
            publication.put(name, cell.document)
        results += latest_results(cell.document)
        for test, lines in cell.document["tests"].items():
            latest[test] = {line["series"]: cell.latest(line, now_ms) for line in lines}
            trends += (trend for line in lines for trend in trends_of(test, line))
            failing += (found for line in lines for found in _failing(test, line, cell.document, runs.documents))
    tests = sorted(latest)
    publication.put("tests", _tests(tests))
    for at, name in enumerate(_COLUMNS):
        texts = [
            "".join(latest[test][series][at] if series in latest[test] else NOTHING for test in tests)
            for series in runs.series.values()
        ]
        column: SiteColumn = {"series": texts}
        publication.put(f"latest/{name}", column)
    largest = heapq.nlargest(_TRENDS, trends, key=lambda each: max(each["factor"], 1 / max(each["factor"], 1e-9)))
    return Data(
        [{"host": each.host, "pins": each.pins} for each in runs.series],
        runs.documents,
        tests,
        failing,
        largest,
        results,
    )


def cell_of(test: str) -> str:
    """Return the name of the document with the results of a test. Raise ValueError for an identifier of another form."""
    of = TestId.parse(test)
    return f"cell/{of.framework}/{of.pipeline}/{of.target}"


def _failing(test: str, line: SiteLine, cell: SiteCell, runs: list[SiteRun]) -> Iterable[Failing]:
    """Yield the failure of a line, if its last decided results are bad."""
    bad = good = None
    behaviour = ""
    for segment in reversed(line["segments"]):
        if segment["state"] == GOOD:
            good = runs[segment["last"]]["id"]
            break
        if segment["state"] == BAD:
            bad = runs[segment["first"]]["id"]
            behaviour = behaviour or " ".join(cell["behaviours"][segment["behaviour"]])
    if bad is not None:
        yield Failing(test, line["series"], bad, good, behaviour)


def _tests(tests: Iterable[str]) -> SiteTests:
    """Return all tests as columns."""
    found = [TestId.parse(test) for test in tests]
    values = {
        "framework": [each.framework for each in found], "pipeline": [each.pipeline for each in found],
        "target": [each.target for each in found], "workload": [each.called for each in found],
        "release": [each.pins for each in found],
    }  # fmt: skip
    names = {axis: sorted(set(column)) for axis, column in values.items()}
    places = {axis: {name: place for place, name in enumerate(of_axis)} for axis, of_axis in names.items()}
    columns = {axis: [places[axis][value] for value in column] for axis, column in values.items()}
    return cast(SiteTests, {f"{axis}s": of_axis for axis, of_axis in names.items()} | columns)
