"""How many programs ``matrix fuzz`` judges in a CPU second, and how many planted miscompiles it finds.

    benchmarks/run fuzz

Each of the compilers makes one mistake of ``matrix golden audit``, at a third of the places where it can be made: ``MOST`` are
drawn of those that can give wrong numbers, and each is fuzzed by a session of its own.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from _matrix import matrix
from _timing import verdict

from mlir_matrix.actions.mutation.ir_mutations import MISTAKES
from support import planted

BUDGET, RATE = "2m", 3.0
MOST, FOUND = 30, 27
#: A mistake is made at each of so many places.
PLACES = 3
ONE_BUDGET_S = 300


def fuzz(*words: str) -> Any:
    """Return the document of a session."""
    return json.loads(matrix("fuzz", *words, "--quiet", "--format", "json"))


def is_found(pipeline: str, catalog: Path, out: Path) -> bool:
    """Return whether a compiler with a mistake is found out in the time of one session."""
    words = ("--catalog", str(catalog), "--out", str(out), "--budget", f"{ONE_BUDGET_S}s", "--first")
    document = fuzz(f"mlir/{pipeline}/x86_64", *words)
    right = any(each["outcome"] == "mismatch" for each in document["findings"])
    seconds = document["summary"]["seconds"]
    print(f"     {pipeline}: {'found' if right else 'not found'} in {seconds:.0f} s")
    return right and seconds <= ONE_BUDGET_S


def main() -> int:
    """Print the numbers; exit code 1 where one does not hold."""
    matrix("run", "smoke", "--quiet")  # installs what is missing
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out, bad = folder / "out", folder / "bad"
        summary = fuzz("--budget", BUDGET, "--out", str(out))["summary"]
        rate = summary["judged"] / summary["cpu_seconds"]
        print(f"     {summary['programs']} programs, {len(summary['routes'])} routes, {summary['findings']} findings")
        holds = [verdict("programs judged in a CPU second", rate, RATE, at_most=False)]
        mistakes = [
            (mistake, first) for mistake in sorted(set(MISTAKES) - planted.NO_NUMBERS) for first in range(PLACES)
        ]
        drawn = random.Random(0).sample(mistakes, min(MOST, len(mistakes)))
        pipelines = [planted.write_compiler(bad, mistake, first, PLACES) for mistake, first in drawn]
        caught = sum(is_found(pipeline, bad, out) for pipeline in pipelines)
        least = FOUND * len(pipelines) / MOST
        holds.append(verdict(f"of {len(pipelines)} planted miscompiles found", caught, least, at_most=False))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
