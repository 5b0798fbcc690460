"""Expanding and listing a suite of 1,000,000 tests, against writing the same identifiers as JSON; and its memory.

python benchmarks/_start.py benchmarks/expand.py [--runs N]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from _synthetic import catalog
from _timing import medians, verdict

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.expand.suite import everything, expand
from mlir_matrix.expand.test_sets import TestPattern

SIZES = (20, 50, 10, 100)


def listing(found: Catalog, suite: str, file: Path) -> None:
    """What is measured: from the loaded catalog to a file with all identifiers, one a line."""
    with file.open("w", encoding="utf-8") as stream:
        stream.write("\n".join(expand(found, found.suites[suite]).ids()))


def dumping(ids: Sequence[str], file: Path) -> None:
    """What it is measured against: the identifiers, ready in memory, as one JSON list in a file."""
    with file.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(ids))


def building(found: Catalog, suite: str) -> None:
    """For comparison: an object for each test, with its route, reason and expectation; nothing keeps them."""
    for _ in expand(found, found.suites[suite]).tests():
        pass


def speed(found: Catalog, folder: Path, runs: int) -> bool:
    """Both suites must stay within three times the JSON of their own identifiers."""
    holds = True
    for suite in ("all", "rules"):
        ids = list(expand(found, found.suites[suite]).ids())
        contenders = {
            "expand and list": partial(listing, found, suite, folder / "ids.txt"),
            "json": partial(dumping, ids, folder / "ids.json"),
            "build all tests": partial(building, found, suite),
        }
        times = medians(contenders, runs)
        print(f"suite {suite}: {len(ids):,} tests, medians of {runs} runs")
        for name, seconds in times.items():
            print(f"     {name}: {seconds:.3f} s, {seconds / len(ids) * 1e9:.0f} ns a test")
        ratio = times["expand and list"] / times["json"]
        holds = verdict(f"suite {suite}: expand and list / json", ratio, 3, at_most=True) and holds
    return holds


def memory(found: Catalog) -> bool:
    """Bytes for each selected test must stay what they are, from a thousand tests to a hundred thousand."""
    expansion = everything(found)
    bytes_each = []
    for glob in ("framework-001/pipeline-001/**", "framework-001/pipeline-00*/**", "framework-00[12]/**"):
        used, count = peak(expansion.namespace.patterns(glob), found)
        bytes_each.append(used / count)
        print(f"     {count:,} of {expansion.count():,} selected: {used / 1e6:.2f} MB, {used / count:.0f} bytes a test")
    return verdict("most bytes a selected test / least", max(bytes_each) / min(bytes_each), 2, at_most=True)


def peak(patterns: Sequence[TestPattern], found: Catalog) -> tuple[int, int]:
    """The most memory that expanding, and building the selected tests, takes: bytes and tests."""
    tracemalloc.start()
    tests = list(everything(found).tests(patterns))
    _, used = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used, len(tests)


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="timed runs of each contender")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = catalog(folder / "catalog", *SIZES)
        results = [speed(found, folder, arguments.runs), memory(found)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
