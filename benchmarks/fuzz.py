"""How many programs ``matrix fuzz`` judges in a CPU second, and how many planted miscompiles it finds.

    benchmarks/run fuzz

The compilers make one mistake of ``matrix golden audit`` each, wherever they can. All that can give wrong numbers are tried, up to
``MISTAKES``, by a session of its own each.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from _matrix import LAUNCHER, ROOT, matrix
from _timing import verdict

from mlir_matrix.actions.mutation.ir_mutations import MISTAKES
from support import planted

BUDGET, RATE = "2m", 3.0
MOST, FOUND = 30, 27
ONE_BUDGET_S = 300


def fuzz(*words: str) -> Any:
    """Return the document of a session."""
    done = subprocess.run(
        [LAUNCHER, "fuzz", *words, "--quiet", "--format", "json"],
        cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"matrix fuzz {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def found(mistake: str, catalog: Path, out: Path) -> bool:
    """Return whether a compiler with a mistake is found out in the time of one session."""
    route = f"mlir/planted-{mistake}/x86_64"
    words = ("--catalog", str(catalog), "--out", str(out), "--budget", f"{ONE_BUDGET_S}s", "--first")
    document = fuzz(route, *words)
    seconds = document["summary"]["seconds"]
    right = any(each["outcome"] == "mismatch" for each in document["findings"])
    print(f"     {mistake}: {'found' if right else 'not found'} in {seconds:.0f} s")
    return right and seconds <= ONE_BUDGET_S


def main() -> int:
    """Print the numbers; exit code 1 where one does not hold."""
    matrix("run", "smoke", "--quiet")  # installs what is missing
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        summary = fuzz("--budget", BUDGET, "--out", str(folder / "out"))["summary"]
        rate = summary["judged"] / summary["cpu_seconds"]
        print(f"     {summary['programs']} programs, {len(summary['routes'])} routes, {summary['findings']} findings")
        holds = [verdict("programs judged in a CPU second", rate, RATE, at_most=False)]
        planted.write_compilers(folder / "bad")
        mistakes = sorted(set(MISTAKES) - planted.NO_NUMBERS)
        mistakes = random.Random(0).sample(mistakes, min(MOST, len(mistakes)))
        caught = sum(found(each, folder / "bad", folder / "out") for each in mistakes)
        least = FOUND * len(mistakes) / MOST
        holds.append(verdict(f"of {len(mistakes)} planted miscompiles found", caught, least, at_most=False))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
