"""What gets through, by workload and by operator, and which pipelines are best: from the last results of tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.names import TestId, split_property
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.cost.best import contests, rows_of
from mlir_matrix.cost.documents import BestDocument
from mlir_matrix.results.results import TestResult
from mlir_matrix.site.cells import last_decided
from mlir_matrix.site.documents import SiteCell, SiteHole, SiteLine, SiteRoute, SiteSegment, SiteSupport
from mlir_matrix.support.documents import SupportEntry
from mlir_matrix.support.support import distance, report

#: The characters of a table.
_LETTERS = {
    "yes": "y", "compiles": "c", "weak": "w", "wrong": "x", "fails": "f", "unknown": "u", "not run": "n", "cannot": "-",
}  # fmt: skip
#: By test.
Routes = Mapping[str, SiteRoute]


def latest_results(cell: SiteCell) -> Iterator[TestResult]:
    """Yield the last results of each test of a cell, one of machines on which it ended alike.

    A result has what the history keeps of it.
    """
    for test, lines in cell["tests"].items():
        name = TestId.parse(test)
        distinct: dict[tuple[int, int, bool], SiteLine] = {}
        for line in lines:
            last = _last_segment(cell, line)
            distinct[last["behaviour"], last["state"], bool(line["costs"])] = line
        for line in distinct.values():
            result = _latest(name, cell, line)
            if result is not None:
                yield result


def _last_segment(cell: SiteCell, line: SiteLine) -> SiteSegment:
    """Return the last results; if the machine did not decide the test now, those that it decided before."""
    last = line["segments"][-1]
    if cell["behaviours"][last["behaviour"]][0] == Outcome.UNSUPPORTED:
        return last
    return last_decided(line)


def _latest(name: TestId, cell: SiteCell, line: SiteLine) -> TestResult | None:
    """Return None for an outcome or a stage that only newer programs know."""
    last = _last_segment(cell, line)
    outcome, stage, text = cell["behaviours"][last["behaviour"]]
    if outcome not in list(Outcome) or stage not in ("", *Stage):
        return None
    workload, tested_property = split_property(name.called)
    error = line["error"][-1] if line["error"] else None
    return TestResult(
        id=str(name), framework=name.framework, pipeline=name.pipeline, target=name.target, workload=workload,
        tested_property=tested_property, outcome=Outcome(outcome), stage=stage, expected=last["state"] > 0,
        reason=text.removeprefix(outcome).lstrip(", "), metrics={} if error is None else {"error_used": error},
        costs={"exact": line["costs"][-1][1], "absent": {}, "operations": {}, "compile": []} if line["costs"] else None,
    )  # fmt: skip


def with_catalog(results: Iterable[TestResult], catalog: Catalog, routes: Routes) -> Iterator[TestResult]:
    """Yield results with what no history has: reasons in full, where expectations are stated, which targets only compile."""
    compile_only = {name for name, entry in catalog.targets.items() if entry.document.compile_only}
    for result in results:
        more: dict[str, Any] = {"compile_only": True} if result.target in compile_only else {}
        route = routes.get(result.id)
        if route and "unsupported" in route and result.outcome == Outcome.UNSUPPORTED:
            more["reason"] = route["unsupported"]
        if route and "expectation" in route:
            outcome, reason, position = route["expectation"]
            more["expectation"] = {"outcome": Outcome(outcome), "reason": reason, "position": position}
        yield replace(result, **more) if more else result


def support_part(
    results: Iterable[TestResult],
    routes: Routes = MappingProxyType({}),
    contained: Mapping[str, frozenset[str]] | None = None,
) -> SiteSupport:
    """Return a table of what gets through, by workload, or by operator where ``contained`` has the operators of tests.

    IR tests are on no route. Of a test with results of several machines, the one that gets furthest counts.
    """
    best: dict[tuple[str, tuple[str, str, str]], SupportEntry] = {}
    on_routes = [result for result in results if not result.identity.is_ir]
    for entry in report(on_routes, contained=contained)["entries"]:
        key = entry["name"], (entry["framework"], entry["pipeline"], entry["target"])
        if key not in best or distance(entry) < distance(best[key]):
            best[key] = entry
    connected = {column for (_, column), entry in best.items() if entry["answer"] != "cannot"}
    reasons: dict[tuple[str, str, str], Counter[str]] = {}
    for (_, column), entry in sorted(best.items()):
        if column not in connected:
            reasons.setdefault(column, Counter())[entry["reason"]] += 1
    unconnected = [(*column, of_tests.most_common(1)[0][0]) for column, of_tests in sorted(reasons.items())]
    rows = sorted({row for row, column in best if column in connected})
    columns = sorted(connected)
    texts: list[str] = []
    holes: dict[str, SiteHole] = {}
    for at, row in enumerate(rows):
        letters = ""
        for number, column in enumerate(columns):
            found = best.get((row, column))
            letters += _LETTERS[found["answer"]] if found else " "
            if found and found["answer"] not in ("yes", "compiles"):
                holes[f"{at} {number}"] = _hole(found, routes)
        texts.append(letters)
    return {"rows": rows, "columns": columns, "answers": texts, "holes": holes, "unconnected": unconnected}


def _hole(entry: SupportEntry, routes: Routes) -> SiteHole:
    hole: SiteHole = {"answer": entry["answer"], "reason": entry["reason"], "test": entry["test"]}
    if "stage" in entry:
        hole["stage"] = entry["stage"]
    if "position" in entry:
        hole["position"] = entry["position"]
    route = routes.get(entry["test"])
    if route and "missing" in route:
        hole["missing"] = route["missing"]
    return hole


def best_part(results: Iterable[TestResult]) -> BestDocument | None:
    """Return which pipelines are best, by counted costs and errors; None without costs. Of machines, the last one counts."""
    found = {result.id: result for result in results if result.costs}
    return contests(rows_of(found.values())) if found else None
