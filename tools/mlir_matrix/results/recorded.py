"""Read the results of tests from documents of earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import SEGMENT_NAMES, SEGMENTS, is_glob, printable, test_glob
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import is_suite
from mlir_matrix.plan.session import select_tests
from mlir_matrix.results.merge import read_results, result_of
from mlir_matrix.results.results import TestResult


def recorded_results(documents: Sequence[Path], current: Session, tests: Sequence[str]) -> list[TestResult]:
    """Return the results in documents, the last one of each test, without IR tests.

    ``tests``: suites, globs and identifiers that choose; empty for all. Raise UsageError if no test matches.
    """
    every = {entry["id"]: result_of(entry) for file in documents for entry in read_results(file)["tests"]}
    if wrong := next((name for name in every if name.count("/") != SEGMENTS - 1), None):
        raise UsageError(
            f"{' '.join(map(str, documents))}: '{printable(wrong)}' is no test: expected {'/'.join(SEGMENT_NAMES)}"
        )
    found = {name: result for name, result in every.items() if result.target != "ir"}
    patterns = _spelled_out(current, tests)
    if patterns:
        globs = [test_glob(pattern) for pattern in patterns if is_glob(pattern)]
        found = {name: found[name] for name in found if name in patterns or any(glob.matches(name) for glob in globs)}
    if not found:
        raise UsageError(f"{' '.join(map(str, documents))}: no test {' '.join(patterns) or 'with a target'}")
    return list(found.values())


def _spelled_out(current: Session, tests: Sequence[str]) -> list[str]:
    """Return identifiers and globs as they are, and the identifiers of the tests of suites."""
    found: list[str] = []
    for name in tests:
        found += [test.id for test in select_tests(current, [name])] if is_suite(name) else [name]
    return found
