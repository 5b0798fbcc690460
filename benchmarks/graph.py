"""The full action graph of 10,000, 30,000 and 100,000 tests: time and memory for each test must not grow.

Then ``matrix plan --format json`` end to end (load, expand, plan, write) for 130 and 1,300 workloads: 10,920 and 109,200 tests.

benchmarks/run graph
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from _matrix import PROGRAM
from _synthetic import catalog
from _timing import medians, verdict

from mlir_matrix.base.paths import find_home
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.cli.main import COLLECTING
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.suite import expand
from mlir_matrix.plan.session import plan_tests

FRAMEWORKS, PIPELINES, TARGETS = 10, 50, 2
WORKLOADS = (10, 30, 100)
RUNS = 5
#: Of ``matrix plan``: frameworks, pipelines, targets; workloads; what the larger plan may take.
CELLS, CATALOGS = (2, 14, 3), (130, 1300)
MOST_S, MOST_MB = 30, 500


def tests_of(found: Catalog) -> list[Test]:
    """All tests of the catalog, built: what is measured begins after that."""
    return list(expand(found, found.suites["all"]).tests())


def count(session: Session, tests: Sequence[Test]) -> int:
    """What is measured: the plan, with the catalog's own tolerance layers. It is gone when the next one begins."""
    return len(plan_tests(session, tests).graph.actions)


def memory(session: Session, tests: Sequence[Test]) -> float:
    """Bytes for each test that the plan holds."""
    gc.collect()
    tracemalloc.start()
    made = plan_tests(session, tests)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made.verdicts) == len(tests)
    return held / len(tests)


def printed(folder: Path) -> tuple[float, float, int]:
    """CPU seconds and peak memory (MB) of ``matrix plan all --format json``, and the bytes that it prints."""
    with open(folder / "plan.json", "wb") as out:
        process = subprocess.Popen(
            [*PROGRAM, "plan", "all", "--format", "json"],
            stdout=out,
            env={**os.environ, "MATRIX_ROOT": str(folder)},
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"matrix plan failed: {status}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.seek(0, os.SEEK_END)


def end_to_end() -> list[bool]:
    """Whether a plan of ten times the tests takes no more a test, and what it may in all."""
    each, took, peak = [], 0.0, 0.0
    for workloads in CATALOGS:
        with tempfile.TemporaryDirectory() as name:
            catalog(Path(name), *CELLS, workloads, own_steps=True)
            tests = CELLS[0] * CELLS[1] * CELLS[2] * workloads
            printed(Path(name))
            took, peak, size = printed(Path(name))
        each.append(took / tests)
        print(f"     matrix plan of {tests:,} tests: {took:.1f} CPU s, peak {peak:.0f} MB, {size / 1e6:.0f} MB of JSON")
    return [
        verdict("matrix plan, time a test, of 109,200 / of 10,920", each[-1] / each[0], 1.5, at_most=True),
        verdict("matrix plan of 109,200 tests, CPU s", took, MOST_S, at_most=True),
        verdict("matrix plan of 109,200 tests, MB", peak, MOST_MB, at_most=True),
    ]


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    # First: a process begins with the memory of the one that starts it, as the kernel counts.
    plans = end_to_end()
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
    return 0 if all([*results, *plans]) else 1


if __name__ == "__main__":
    sys.exit(main())
