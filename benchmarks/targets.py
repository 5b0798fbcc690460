"""Twelve targets, with and without contraction where the CPU fuses, and ten workloads, against the times of the tools themselves.

    benchmarks/run targets

The ingress is warm: imports and lowerings are those of a run for another target. The time of an action is that of the
programs that it runs, and of one that runs none what its worker measures around it.
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

TARGETS = "{x86_64-v*,aarch64*,riscv64*,wasm32*}"
WORKLOADS = "{argmax,attention,conv2d,gelu,layernorm,matmul,mlp,reduce_sum,softmax,transpose}"
RUNS = 3


def run(folder: Path, target: str) -> dict[str, object]:
    """Run the workloads on targets with an action cache; return the results document."""
    text = matrix(
        "run", f"mlir/linalg-loops/{target}/{WORKLOADS}", "--cache-dir", str(folder), "--quiet", "--format", "json"
    )
    found: dict[str, object] = json.loads(text)
    return found


def times(folder: Path) -> dict[Path, float]:
    """Return the seconds of each action in a cache."""
    results = {file: json.loads(file.read_text().partition("\n")[0]) for file in folder.glob("results-*/*/*")}
    return {file: each["metrics"].get("programs_s", each["usage"].get("wall_s", 0.0)) for file, each in results.items()}


def main() -> int:
    ratios = []
    # Builds the C libraries, which count as part of the environment.
    document = run(Path(tempfile.mkdtemp()), TARGETS)
    summary = document["summary"]
    print(f"     {summary}")
    for _ in range(RUNS):
        folder = Path(tempfile.mkdtemp())
        try:
            run(folder, "x86_64")
            before = times(folder)
            begin = time.perf_counter()
            run(folder, TARGETS)
            took = time.perf_counter() - begin
            own = [seconds for file, seconds in times(folder).items() if file not in before]
        finally:
            shutil.rmtree(folder)
        bound = sum(own) / cores()
        ratios.append(took / bound)
        print(f"     {took:.1f} s for {len(own)} actions, which took {bound:.1f} s on {cores()} cores")
    return not verdict(
        "12 targets, 10 workloads / their tools' own times", statistics.median(ratios), 1.3, at_most=True
    )


if __name__ == "__main__":
    raise SystemExit(main())
