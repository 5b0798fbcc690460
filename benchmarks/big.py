"""Big tensors end to end: what ``matrix run`` adds to the time of the tools, and the memory of its own process.

    benchmarks/run big

A product of 4096 × 16 by 16 × 4096 (64 MiB of f32, 128 MiB of expected values) and 64 rows of a table of 1 GiB, from MLIR, with
goldens that are computed. One action at a time, so that what is ours is the wall time less that of the actions, and less what
the same test takes with small tensors: to start, to import in workers. It is held against writing, hashing and reading the bytes
that actions made, once each, on the same disk. It needs 6 GB of disk, which are free again afterwards.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _big_catalog import add_product, add_rows
from _matrix import PROGRAM
from _timing import verdict
from cold import added, kit_template, results

from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.plan.session import open_session

TESTS = "mlir/linalg-loops/x86_64/"
_PIECE = os.urandom(1 << 20)


def moved(folder: Path, size: int) -> float:
    """Seconds to write ``size`` bytes, to hash them, and to read them."""
    path = folder / "bytes"
    begin = time.perf_counter()
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(_PIECE)
    with open(path, "rb") as file:
        hashlib.file_digest(file, "sha256")
    with open(path, "rb", buffering=0) as file:
        while file.read(len(_PIECE)):
            continue
    seconds = time.perf_counter() - begin
    path.unlink()
    return seconds


def observed(*arguments: str) -> tuple[float, float]:
    """Wall time of a ``matrix`` command that succeeds, and the most memory (MiB) that its own process had."""
    begin, most = time.perf_counter(), 0
    process = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        most = max(most, _high_water(process.pid))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"matrix {' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - begin, most / 1024


def _high_water(pid: int) -> int:
    """Kilobytes of memory that a process had at most until now; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of one test: wall time and that of its actions, bytes that these made, memory of the process (MiB)."""

    wall: float
    tools: float
    size: int
    memory: float


def run(catalog: Path, cache: Path, workload: str) -> Run:
    """Run one test whose actions the cache does not have."""
    before = results(cache)
    test = (f"{TESTS}{workload}", "--catalog", str(catalog))
    wall, most = observed("run", *test, "--cache-dir", str(cache), "--jobs", "1", "--timeout", "600", "--quiet")
    store, made = ActionCache(cache), list(added(cache, before))
    return Run(
        wall=wall,
        tools=sum(result.usage["wall_s"] for result in made),
        size=sum(os.path.getsize(store.blob_path(digest)) for result in made for digest in result.outputs.values()),
        memory=most,
    )


def measure(catalog: Path, cache: Path, workload: str) -> list[bool]:
    """Run a test with small and with large tensors; print what is ours, and whether it is little enough."""
    _, start = observed("plan", f"{TESTS}{workload}", "--catalog", str(catalog))
    small, large = run(catalog, cache, f"small-{workload}"), run(catalog, cache, workload)
    fixed, ours = small.wall - small.tools, large.wall - large.tools
    unit = (moved(cache, large.size) + moved(cache, large.size)) / 2
    print(
        f"     {workload}: {large.size >> 20} MiB made; {large.wall:.1f} s in all, tools {large.tools:.1f} s, ours {ours:.1f} s "
        f"(with small tensors {fixed:.1f} s); writing, hashing and reading once {unit:.1f} s"
    )
    return [
        verdict(f"{workload}: ours for large tensors / moving the bytes once", (ours - fixed) / unit, 3, at_most=True),
        verdict(f"{workload}: memory above that of matrix plan, MiB", large.memory - start, 200, at_most=True),
    ]


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    home = open_session().home.cache
    with tempfile.TemporaryDirectory(dir=home) as name:
        folder = Path(name)
        catalog, cache = folder / "catalog", folder / "cache"
        add_product(catalog, "product", 4096, 16, 4096)
        add_product(catalog, "small-product", 64, 16, 64)
        add_rows(catalog, "rows", 1 << 20, 256)
        add_rows(catalog, "small-rows", 1 << 10, 256)
        kit_template(open_session(), "smoke", cache)
        oks = [ok for workload in ("product", "rows") for ok in measure(catalog, cache, workload)]
    return 0 if all(oks) else 1


if __name__ == "__main__":
    sys.exit(main())
