"""Sixteen runs of the same tests at once, on one empty action cache: how many actions they execute, and how long it takes.

benchmarks/run simultaneous

The IR tests of steps: they need no framework, and not the C library, which would be most of the time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _matrix import LAUNCHER, ROOT, matrix
from _timing import verdict

RUNS = 16
TESTS = ("mlir/*/ir/*",)


def main() -> int:
    """Print the numbers; exit code 1 where runs do each other's work again."""
    matrix("run", *TESTS, "--quiet")  # what is to be installed is
    with tempfile.TemporaryDirectory() as folder:
        alone, _ = _seconds(1, Path(folder) / "alone")
        together, documents = _seconds(RUNS, Path(folder) / "together")
    executed = [document["executed"] for document in documents]
    distinct = len({action for document in documents for action in document["executed_actions"]})
    print(
        f"     {len(documents[0]['tests'])} tests, {distinct} distinct actions; executed: {sum(executed)}, by run {executed}"
    )
    print(f"     wall time: {together:.1f} s; of one run alone: {alone:.1f} s")
    passed = {test["outcome"] for document in documents for test in document["tests"]} <= {"pass", "unsupported"}
    holds = [
        verdict("runs whose tests do not all pass", int(not passed), 0, at_most=True),
        verdict("actions executed / distinct ones", sum(executed) / distinct, 1.1, at_most=True),
    ]
    return 0 if all(holds) else 1


def _seconds(runs: int, cache: Path) -> tuple[float, list[dict[str, Any]]]:
    """Start runs at once; the seconds until all have ended, and their results documents."""
    command = [LAUNCHER, "run", *TESTS, "--quiet", "--format", "json", "--cache-dir", str(cache)]
    begin = time.perf_counter()
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(runs)]
    documents = [json.loads(process.communicate(timeout=600)[0]) for process in started]
    return time.perf_counter() - begin, documents


if __name__ == "__main__":
    sys.exit(main())
