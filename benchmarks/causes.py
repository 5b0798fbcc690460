"""Grouping the failures of a run: 10,000 failing tests of a synthesised results document, and as many passing ones.

    benchmarks/run causes

The document is read as ``matrix merge`` reads one, grouped, and printed. The failures have few causes, many of a handful of
tests, or one each.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from _timing import verdict

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.merge import read_results, result_of
from mlir_matrix.results.report.summary import print_summary
from mlir_matrix.results.results import Run, TestResult, to_document

FAILING, PASSING, MOST_S = 10_000, 10_000, 5.0
STEPS = ["torch-to-linalg", "linalg-fuse", "bufferize", "linalg-to-loops", "loops-to-llvm", "object"]
FRAMEWORKS = ("pytorch", "jax", "onnx", "mlir")


def result(number: int, causes: int, chance: random.Random) -> TestResult:
    """Return a failing test of one of so many causes; without causes, a passing test."""
    workload = f"{'workload' if causes else 'right'}-{number // 80}-{number % 80 // 20}"
    names = {
        "framework": FRAMEWORKS[number % 4],
        "pipeline": f"pipeline-{number % 20}",
        "target": "x86_64",
        "workload": workload,
    }
    more: dict[str, Any] = {
        "outcome": Outcome.PASS,
        "stage": Stage.JUDGE,
        "expected": True,
        "reason": "",
        "steps": STEPS,
    }
    if causes:
        cause = chance.randrange(causes)
        at = cause % len(STEPS)
        # Signatures do not have numbers.
        word = "".join("abcdefghij"[int(digit)] for digit in str(cause))
        more |= {
            "outcome": Outcome.LOWER_FAILED, "stage": Stage.LOWER, "expected": False, "steps": STEPS[: at + 1],
            "reason": f"{STEPS[at]}: no pattern converts 'a.{word}' (size = {number})", "diagnostics": "error: x\n" * 20,
            "step": {"name": STEPS[at], "action": f"{STEPS[at]}-{number:016x}"}, "repeat": "again",
        }  # fmt: skip
        if number % 2:
            more |= {
                "outcome": Outcome.MISMATCH, "stage": Stage.JUDGE, "steps": STEPS, "reason": f"y: {number} elements are wrong",
                "step": {"name": f"judge/{workload}", "action": f"judge/{number:016x}"}, "wrong_output": f"{cause:064x}",
            }  # fmt: skip
    fields: dict[str, Any] = {**names, **more}
    return TestResult(id="/".join(names.values()), **fields)


def measured(causes: int) -> float:
    """Return the seconds to read, group and print a run whose failures have so many causes."""
    chance = random.Random(causes)
    results = [result(number, causes, chance) for number in range(FAILING)]
    results += [result(number, 0, chance) for number in range(PASSING)]
    time_of_day = "2026-01-31T12:00:00.000Z"
    about: Any = {
        "version": "1", "command": "", "host": "", "catalogs": [], "started": time_of_day, "ended": time_of_day,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        file.write_text(json.dumps(to_document(Run(results=results), about)))
        began = time.perf_counter()
        run = Run(results=[result_of(entry) for entry in read_results(file)["tests"]])
    read = time.perf_counter()
    run.causes = causes_of(run.results)
    grouped = time.perf_counter()
    with redirect_stdout(io.StringIO()) as text:
        print_summary(run, {})
    shown = time.perf_counter()
    lines = text.getvalue().count("\n")
    print(
        f"  {causes:5} planted, {len(run.causes):5} found: read {read - began:.2f} s, grouped {grouped - read:.2f} s, "
        f"printed {shown - grouped:.2f} s in {lines} lines"
    )
    assert sum(len(cause["tests"]) for cause in run.causes) == FAILING
    assert lines <= 80
    return grouped - read


def main() -> int:
    slowest = max(measured(causes) for causes in (3, 300, FAILING))
    return 0 if verdict("seconds to group", slowest, MOST_S, at_most=True) else 1


if __name__ == "__main__":
    sys.exit(main())
