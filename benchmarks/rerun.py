"""``tools/matrix run smoke`` again, with everything unchanged, and ``tools/matrix --help``: wall time as a person waits.

benchmarks/run rerun

That no framework is imported is shown, too: no process is started, and the program's own has none of their modules.
"""

from __future__ import annotations

import sys
from functools import partial

from _matrix import matrix, observed
from _timing import medians, verdict

RUNS = 15
FRAMEWORKS = frozenset({"torch", "torch_mlir", "jax", "jaxlib", "onnx", "iree", "mlir", "numpy"})


def main() -> int:
    """Print the times; exit code 1 where one is too long."""
    matrix("run", "smoke", "--quiet")  # what is not known yet becomes known
    report = observed("smoke")
    results = report.document
    imported = sorted(FRAMEWORKS & report.modules)
    done = [results["executed"], len(imported), int(report.others_rss > 0)]
    print(
        f"     {results['summary']['total']} tests: {done[0]} actions executed; frameworks imported: "
        f"{', '.join(imported) or 'none'}; processes started: {'some' if done[2] else 'none'}; CPU {report.own_s:.3f} s"
    )
    times = medians({"run": partial(matrix, "run", "smoke"), "--help": partial(matrix, "--help")}, RUNS)
    for name, seconds in times.items():
        print(f"     matrix {name}: {seconds:.3f} s (median of {RUNS})")
    holds = [
        verdict("actions executed, frameworks imported, processes started", sum(done), 0, at_most=True),
        verdict("unchanged run of smoke / 0.5 s", times["run"] / 0.5, 1, at_most=True),
        verdict("matrix --help / 0.15 s", times["--help"] / 0.15, 1, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
