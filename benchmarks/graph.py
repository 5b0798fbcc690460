"""The full action graph of 10,000, 30,000 and 100,000 tests: time and memory for each test must not grow.

benchmarks/run graph
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from _synthetic import catalog
from _timing import medians, verdict

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.cli import COLLECTING
from mlir_matrix.expand import expand
from mlir_matrix.expansion import Test
from mlir_matrix.home import find_home
from mlir_matrix.pins import Pins
from mlir_matrix.session import Session

FRAMEWORKS, PIPELINES, TARGETS = 10, 50, 2
WORKLOADS = (10, 30, 100)
RUNS = 5


def tests_of(found: Catalog) -> list[Test]:
    """All tests of the catalog, built: what is measured begins after that."""
    return list(expand(found, found.suites["all"]).tests())


def count(session: Session, tests: Sequence[Test]) -> int:
    """What is measured: the plan, with the catalog's own tolerance layers. It is gone when the next one begins."""
    return len(session.plan(tests).graph.actions)


def memory(session: Session, tests: Sequence[Test]) -> float:
    """Bytes for each test that the plan holds."""
    gc.collect()
    tracemalloc.start()
    made = session.plan(tests)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made.verdicts) == len(tests)
    return held / len(tests)


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    gc.set_threshold(*COLLECTING)  # as in use
    seconds, bytes_each = [], []
    with tempfile.TemporaryDirectory() as name:
        for workloads in WORKLOADS:
            found = catalog(Path(name) / str(workloads), FRAMEWORKS, PIPELINES, TARGETS, workloads, own_steps=True)
            session = Session(catalog=found, home=find_home(), pins=Pins(found))
            tests = tests_of(found)
            actions = count(session, tests)
            times = medians({"plan": partial(count, session, tests)}, RUNS, clock=time.process_time)
            seconds.append(times["plan"] / len(tests))
            bytes_each.append(memory(session, tests))
            print(
                f"     {len(tests):,} tests, {actions:,} actions: {times['plan']:.2f} CPU s (median of {RUNS}), "
                f"{seconds[-1] * 1e6:.0f} us and {bytes_each[-1]:,.0f} bytes a test"
            )
    results = [
        verdict("time a test, of 100,000 / of 10,000", seconds[-1] / seconds[0], 1.5, at_most=True),
        verdict("memory a test, of 100,000 / of 10,000", bytes_each[-1] / bytes_each[0], 1.2, at_most=True),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
