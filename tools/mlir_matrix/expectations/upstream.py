"""Compare the results of a suite with the tests that an upstream project expects to fail: who is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.corpora import OF_FILE
from mlir_matrix.catalog.models.suites import Suite
from mlir_matrix.expectations.expectations import reason_of
from mlir_matrix.expectations.xfail_sets import Names, read_sets
from mlir_matrix.results.results import NOT_RUN, TestResult

if TYPE_CHECKING:
    from mlir_matrix.expectations.documents import Differing, Upstream, UpstreamCell

#: Outcomes that are no verdict about a test.
_NO_VERDICT = NOT_RUN | {Outcome.INFRA_ERROR}


def compare_upstream(catalog: Catalog, suite: Entry[Suite], file: Path, results: Mapping[str, TestResult]) -> Upstream:
    """Compare results with the sets of a file. Raise UsageError."""
    cells = suite.document.xfail_sets
    if not cells:
        raise UsageError(f"suite {suite.name} has no 'xfail_sets', which name the sets of {file.name} by cell")
    compared = []
    for cell, names in cells.items():
        # Upstream has no tests of properties.
        in_cell = [
            result for result in results.values() if result.identity.cell == cell and result.called == result.workload
        ]
        if not in_cell:
            continue
        releases = {component: release for result in in_cell for component, release in result.pins.items()}
        sets = read_sets(file, names, releases)
        compared.append(_cell(cell, sets, {_upstream_name(catalog, result): result for result in in_cell}))
    return {"file": str(file), "cells": compared}


def _upstream_name(catalog: Catalog, result: TestResult) -> str:
    """Return the name that upstream has for a test: that of the test in its file."""
    member = catalog.workloads[result.workload].member
    return member.rpartition(OF_FILE)[2] or result.workload


def _cell(cell: str, sets: Mapping[str, Names], results: Mapping[str, TestResult]) -> UpstreamCell:
    judged = {name: each for name, each in results.items() if each.outcome not in _NO_VERDICT}
    expected = frozenset[str]().union(*sets.values())
    fails = {name: each for name, each in judged.items() if each.outcome != Outcome.PASS}
    passes = judged.keys() - fails.keys()
    theirs: dict[tuple[str, str], list[str]] = {}
    for name in sorted(passes & expected):
        where = ", ".join(each for each, names in sets.items() if name in names)
        theirs.setdefault((Outcome.PASS, where), []).append(name)
    ours: dict[tuple[str, str], list[str]] = {}
    for name in sorted(fails.keys() - expected):
        ours.setdefault((fails[name].outcome, reason_of(fails[name])), []).append(name)
    return {
        "cell": cell,
        "sets": list(sets),
        "both_pass": len(passes - expected),
        "both_fail": len(fails.keys() & expected),
        "only_they_fail": _groups(theirs),
        "only_we_fail": _groups(ours),
        "not_run": sorted(expected - judged.keys()),
    }


def _groups(groups: Mapping[tuple[str, str], Iterable[str]]) -> list[Differing]:
    rows: list[Differing] = [
        {"outcome": outcome, "reason": reason, "tests": list(tests)} for (outcome, reason), tests in groups.items()
    ]
    return sorted(rows, key=lambda row: (-len(row["tests"]), row["outcome"], row["reason"]))
