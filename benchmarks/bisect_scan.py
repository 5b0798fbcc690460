"""`matrix bisect` of six workloads over all fetched LLVM releases, cold actions, against the times of the actions themselves.

    benchmarks/run bisect_scan

The time of an action is that of the programs that it runs, and of one that runs none what its worker measures around it.
What `matrix bisect` adds is everything else: planning, sandboxes, digests, reports.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from _baseline import cores
from _matrix import matrix
from _timing import verdict

TESTS = (
    ("math-poly", "asin"),
    ("math-poly", "atan"),
    ("math-poly", "cbrt"),
    *(("math-expand", name) for name in ("ceil", "floor", "powf")),
)
RUNS = 3


def scan(folder: Path) -> tuple[float, float, int]:
    """Seconds of a scan, the sum of its actions' times divided by the cores, and the number of actions."""
    names = [f"mlir/{pipeline}/x86_64/{workload}" for pipeline, workload in TESTS]
    begin = time.perf_counter()
    matrix("bisect", *names, "--cache-dir", str(folder), "--quiet", "--format", "json")
    took = time.perf_counter() - begin
    results = [json.loads(file.read_text().partition("\n")[0]) for file in folder.glob("results-*/*/*")]
    times = [each["metrics"].get("programs_s", each["usage"].get("wall_s", 0.0)) for each in results]
    return took, sum(times) / cores(), len(times)


def main() -> int:
    ratios = []
    matrix("bisect", f"mlir/{TESTS[0][0]}/x86_64/{TESTS[0][1]}", "--quiet")
    for _ in range(RUNS):
        folder = Path(tempfile.mkdtemp())
        try:
            took, own, count = scan(folder)
        finally:
            shutil.rmtree(folder)
        ratios.append(took / own)
        print(f"     {took:.1f} s for {count} actions, which took {own:.1f} s on {cores()} cores")
    return not verdict("a scan of six workloads / its actions' own times", statistics.median(ratios), 1.2, at_most=True)


if __name__ == "__main__":
    raise SystemExit(main())
