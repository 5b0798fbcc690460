"""The tables of what gets through, from the last results of tests."""

from __future__ import annotations

from typing import Literal

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.environments.session import Session
from mlir_matrix.site.catalog_part import catalog_documents
from mlir_matrix.site.documents import SiteCell, SiteLine, SiteRoute
from mlir_matrix.site.support_part import latest_results, support_part, with_catalog

_PASS, _UNSUPPORTED, _SKIPPED, _MISMATCH, _CRASHED = range(5)
_GOOD, _UNKNOWN = 1, 2
_ROUTE: SiteRoute = {"steps": [], "environments": {}, "bounds": [], "position": "w.yaml:1:1"}
_ROUTES: dict[str, SiteRoute] = {
    "a/p/t/wrong": {**_ROUTE, "expectation": ("mismatch", "a bug of theirs", "suite.yaml:3:1")},
    "a/p/t/cannot": {**_ROUTE, "unsupported": "a emits 16 kinds; p takes x", "missing": "x"},
}


def _line(*ended: tuple[int, Literal[0, 1, 2]], series: int = 0, instructions: float = 9.0) -> SiteLine:
    return {
        "series": series,
        "segments": [
            {"behaviour": behaviour, "state": state, "first": at, "last": at, "runs": 1, "pins": 0}
            for at, (behaviour, state) in enumerate(ended)
        ],
        "runs": [0],
        "ms": [5],
        "error": [0.5],
        "costs": [(0, {"instructions": instructions})] if ended[-1][0] == _PASS else [],
        "changes": [],
    }


def _cell(**tests: list[SiteLine]) -> SiteCell:
    return {
        "behaviours": [
            (Outcome.PASS, "", ""),
            (Outcome.UNSUPPORTED, "", "a emits … kinds; p takes x"),
            (Outcome.SKIPPED, "", "no such machine"),
            (Outcome.MISMATCH, Stage.JUDGE, "mismatch, y: wrong elements"),
            (Outcome.CRASHED, Stage.LOWER, "crashed by SIGSEGV at fuse"),
        ],
        "pins": [{}],
        "tests": {name.replace("__", "/"): lines for name, lines in tests.items()},
    }


_CELL = _cell(
    a__p__t__works=[_line((_CRASHED, 0), (_PASS, _GOOD), (_SKIPPED, _UNKNOWN))],
    a__p__t__crashes=[_line((_PASS, _GOOD), (_CRASHED, 0))],
    a__p__t__wrong=[_line((_MISMATCH, _GOOD))],
    a__p__t__cannot=[_line((_PASS, _GOOD), (_UNSUPPORTED, _UNKNOWN))],
    a__p__u__works=[_line((_SKIPPED, _UNKNOWN))],
    a__q__t__works=[_line((_UNSUPPORTED, _UNKNOWN))],
    mlir__fuse__ir__case=[_line((_PASS, _GOOD))],
)


def test_each_test_has_a_letter_and_each_hole_its_reason(current: Session) -> None:
    results = with_catalog(latest_results(_CELL), current.catalog, _ROUTES)
    table = support_part(results, _ROUTES)
    assert table["rows"] == ["cannot", "crashes", "works", "wrong"]
    assert table["columns"] == [("a", "p", "t"), ("a", "p", "u")]
    assert table["answers"] == ["- ", "f ", "yn", "x "]
    assert table["unconnected"] == [("a", "q", "t", "a emits … kinds; p takes x")]
    assert table["holes"]["0 0"] == {
        "answer": "cannot", "reason": "a emits 16 kinds; p takes x", "test": "a/p/t/cannot", "missing": "x"
    }  # fmt: skip
    assert table["holes"]["1 0"]["reason"] == "crashed: by SIGSEGV at fuse"
    assert table["holes"]["1 0"]["stage"] == "lower"
    assert table["holes"]["3 0"] == {
        "answer": "wrong", "reason": "a bug of theirs", "test": "a/p/t/wrong", "position": "suite.yaml:3:1"
    }  # fmt: skip
    assert "2 0" not in table["holes"]


def test_of_several_machines_the_one_that_gets_furthest_counts() -> None:
    lines = [_line((_CRASHED, 0)), _line((_PASS, _GOOD), series=1), _line((_CRASHED, 0), series=2)]
    table = support_part(latest_results(_cell(a__p__t__works=lines)))
    assert (table["answers"], table["holes"]) == (["y"], {})


def test_operators_of_imports_are_rows() -> None:
    contained = {"a/p/t/works": frozenset({"tosa.add", "tosa.sort"}), "a/p/t/crashes": frozenset({"tosa.sort"})}
    table = support_part(latest_results(_CELL), {}, contained)
    assert (table["rows"], table["answers"][0][0]) == (["tosa.add", "tosa.sort"], "y")


def test_no_results_are_an_empty_table() -> None:
    assert support_part([]) == {"rows": [], "columns": [], "answers": [], "holes": {}, "unconnected": []}


def test_without_a_catalog_there_are_tables_and_contests() -> None:
    slower = _line((_PASS, _GOOD), instructions=10.0)
    results = [
        *latest_results(_CELL),
        *latest_results(_cell(a__q__t__crashes=[_line((_PASS, _GOOD))], a__r__t__crashes=[slower])),
    ]
    documents = catalog_documents(None, results)
    assert documents.keys() == {"support/workload", "best"}
    (contest,) = (each for each in documents["best"]["contests"] if each["workload"] == "crashes")
    assert [each["test"] for each in contest["best"]] == ["a/q/t/crashes"]
    assert contest["beaten"][0]["better_in"] == ["instructions"]
    assert catalog_documents(None, []).keys() == {"support/workload"}
