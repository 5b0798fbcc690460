"""``matrix reduce`` on planted miscompiles and real crashes: how much is left, how fast, and whether that has the same cause.

    benchmarks/run reduce
    python benchmarks/_start.py benchmarks/reduce.py --count 100

Miscompiles are mistakes of ``matrix golden audit`` in programs of 40 to 60 operations. Crashes are real faults of LLVM's releases,
between 60 other operations.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from _matrix import LAUNCHER, ROOT, matrix
from _mlir_reduce import mlir_reduce, programs_of
from _timing import verdict

from support import crashes
from support.planted import Planted, planted, write_compilers, write_programs

SEED = 16
#: Pairs of a program and a mistake that fail for each program, or more.
PER_PROGRAM = 4
BUDGET = "3m"
#: The least time that mlir-reduce gets.
LEAST_S = 20.0


def reduce(folder: Path, catalog: Path, test: str, *options: str) -> dict[str, Any] | None:
    """Reduce a test; None if that gives no program, with a line that says why."""
    command = [LAUNCHER, "reduce", test, "--catalog", str(catalog), "--out", str(folder), "--budget", BUDGET, *options]
    done = subprocess.run(
        [*command, "--format", "json", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        print(f"     {test}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        return None
    found: dict[str, Any] = json.loads(done.stdout)["tests"][0]
    return found


def failing(catalog: Path, count: int) -> Iterator[Planted]:
    """Yield miscompiles that matter, of programs that are right without the mistake."""
    write_compilers(catalog)
    pairs = planted(write_programs(catalog, -(-count // PER_PROGRAM) + 1, SEED), SEED)
    tests = dict.fromkeys(test for pair in pairs for test in (pair.test, pair.good))
    outcomes = outcomes_of(*tests, "--catalog", str(catalog))
    found = [pair for pair in pairs if (outcomes[pair.test], outcomes[pair.good]) == ("mismatch", "pass")]
    yield from found[:count]


def outcomes_of(*arguments: str) -> dict[str, str]:
    """Run tests and return the outcome of each."""
    tests = json.loads(matrix("run", *arguments, "--quiet", "--format", "json"))["tests"]
    return {test["id"]: test["outcome"] for test in tests}


def kept_cause(pair: Planted, found: dict[str, Any]) -> bool:
    """Return whether the reduced workload is wrong with the mistake, and right without it.

    The compilers differ in the mistake alone, so it has a site in the reduced program.
    """
    _, verb, *words = shlex.split(found["command"])
    if verb != "run" or f"/planted-{pair.mistake}/" not in words[0]:
        return False
    good = words[0].replace(f"/planted-{pair.mistake}/", "/linalg-loops/")
    outcomes = outcomes_of(*words, good)
    return (outcomes[words[0]], outcomes[good]) == ("mismatch", "pass")


def miscompiles(folder: Path, count: int) -> list[bool]:
    """Reduce planted miscompiles and print what is left."""
    catalog, sizes, seconds, rates = folder / "catalog", list[int](), list[float](), list[float]()
    total = slips = 0
    for pair in failing(catalog, count):
        total += 1
        found = reduce(folder / str(total), catalog, pair.test)
        if found is None:
            continue
        sizes.append(found["after"]["operations"])
        seconds.append(found["seconds"])
        rates.append(rate_of(found))
        kept = kept_cause(pair, found)
        slips += not kept
        print(
            f"     {pair.test}: {found['before']['operations']} to {sizes[-1]} operations in {seconds[-1]:.0f} s "
            f"by {found['candidates']} candidates{'' if kept else '; ANOTHER CAUSE'}"
        )
    small = sum(size <= 5 for size in sizes)
    print(f"     {total} miscompiles, sizes {sorted(sizes)}")
    return [
        verdict("reduced to 5 operations or less", small / total, 0.95, at_most=False),
        verdict("another cause", slips, 0, at_most=True),
        verdict("median seconds", statistics.median(seconds or [1e9]), 60, at_most=True),
        verdict("candidates a second and core", statistics.median(rates or [0]), 20, at_most=False),
    ]


def faults(folder: Path, chosen: Sequence[crashes.PassFault | crashes.ProgramFault]) -> list[bool]:
    """Reduce crashes and errors, those of passes by ``mlir-reduce``, too, and print what is left."""
    catalog, sizes, rates, larger = folder / "catalog", list[float](), list[float](), 0
    crashes.write(catalog)
    for fault in chosen:
        out = folder / fault.name
        found = reduce(out, catalog, fault.test, *fault.pins, "--timeout", str(crashes.TIMEOUT))
        if found is None:
            sizes.append(math.inf)
            continue
        size, seconds = size_of(found["after"]), found["seconds"]
        sizes.append(size)
        theirs = ""
        if isinstance(fault, crashes.PassFault) and fault.said:
            source = catalog / "recipes/steps" / fault.name / "tests/padded.mlir"
            left = mlir_reduce(programs_of(fault.release), source, fault.passes, fault.said, max(LEAST_S, seconds), out)
            larger += isinstance(left, int) and size > left
            theirs = f"; mlir-reduce: {left}"
            rates.append(rate_of(found))
        print(
            f"     {fault.name}: {size_of(found['before'])} to {size} operations in {seconds:.0f} s "
            f"by {found['candidates']} candidates{theirs}"
        )
    return [
        verdict("operations left of a crash", max(sizes), 8, at_most=True),
        verdict("larger than by mlir-reduce", larger, 0, at_most=True),
        verdict("candidates of IR tests a second and core", statistics.median(rates or [0]), 100, at_most=False),
    ]


def rate_of(found: dict[str, Any]) -> float:
    """Return how many candidates a core tested in a second."""
    rate: float = found["candidates"] / found["search_seconds"] / (os.cpu_count() or 1)
    return rate


def size_of(size: dict[str, Any]) -> int:
    """Return the number of operations; of a text that no release reads, of lines."""
    operations: int | None = size["operations"]
    lines: int = size["lines"]
    return lines if operations is None else operations


def main() -> int:
    """Print what is left; exit code 1 where it is too much, took too long, or fails for another cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4, help="miscompiles, and faults of releases at most")
    count = parser.parse_args().count
    chosen = random.Random(SEED).sample(crashes.FAULTS, k=len(crashes.FAULTS))[:count]
    with tempfile.TemporaryDirectory() as name:
        holds = [*miscompiles(Path(name, "miscompiles"), count), *faults(Path(name, "faults"), chosen)]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
