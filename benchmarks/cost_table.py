"""How fast programs of several compilers are: the table of docs/cost.md, in one session on one core.

    benchmarks/run cost_table

Each program is timed in turn with that of clang from C, and the table has the ratios of a call's time: below 1 is faster than C.
Of C it also has the share of what one core can do at most (``matrix machine probe --peaks``).
"""

from __future__ import annotations

import json
import os
import sys
from statistics import geometric_mean, median

from _matrix import matrix

from mlir_matrix.cost.sampling import sample
from mlir_matrix.cost.sides import run_side
from mlir_matrix.cost.work import share_of_peak
from mlir_matrix.fleet.peaks import kept_peaks, measure_peaks
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, select_tests
from support.timed import timed_program

C = "c/native/x86_64"
#: Its IR at linalg says what there is to compute; ``linalg-fuse`` would compute some of it more than once.
WORK = "pytorch/linalg-named/x86_64"
COLUMNS = {
    "linalg-loops": "pytorch/linalg-loops/x86_64",
    "linalg-vectorized": "pytorch/linalg-vectorized/x86_64",
    "IREE": "pytorch/iree-llvm-cpu/iree-local",
    "XLA": "jax/xla-cpu/xla-cpu",
    "TorchInductor": "pytorch/torch-inductor/torch-aoti",
    "TVM": "pytorch/tvm-llvm/tvm-cpu",
    "ONNX Runtime": "onnx/onnxruntime/onnxruntime-cpu",
}
#: Of smoke.
WORKLOADS = (
    "argmax", "attention", "avg_pool", "batch_matmul", "broadcast_add", "conv2d", "cumsum", "cumsum_squares",
    "depthwise_conv2d", "embedding", "flip", "gelu", "gelu_tanh", "layernorm", "matmul", "matmul_bf16", "matmul_i8", "max_pool",
    "mlp", "mlp_dynamic", "reduce_sum", "resnet_block", "scatter_add", "softmax", "topk", "transformer_block", "transpose",
)  # fmt: skip
PAIRS = 7
LIMITS = Limits(jobs=2, timeout_s=600)
#: Half the width of an interval that is shown, by its middle.
SHOWN = 0.05
#: Nanoseconds from which on a call is more than what a runtime does in each call.
LONG_NS = 10_000


def cell(ratios: list[float]) -> str:
    """Return the median, with the half of the interval without the least and the greatest ratio where that is wide."""
    middle = median(ratios)
    _, *inner, _ = sorted(ratios)
    half = (max(inner) - min(inner)) / 2
    digits = 3 if middle < 0.0995 else 2 if middle < 9.95 else 0
    return f"{middle:.{digits}f}" + (f" ± {half:.{digits}f}" if half > SHOWN * middle else "")


def main() -> int:
    workloads = sys.argv[1:] or WORKLOADS
    tests = [f"{route}/{workload}" for route in (C, *COLUMNS.values()) for workload in workloads]
    report = json.loads(matrix("run", *tests, "--quiet", "--format", "json"))
    outcomes = {each["id"]: each["outcome"] for each in report["tests"]}
    session = open_session()
    work = run_side(session, select_tests(session, [f"{WORK}/{each}" for each in workloads]), LIMITS, quiet=True)
    peaks = kept_peaks(session.home) or measure_peaks(session, LIMITS)
    print("| workload | C, µs | C of peak |", " | ".join(COLUMNS), "|")
    print("|---|---|---|" + "---|" * len(COLUMNS))
    long: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for workload in workloads:
        baseline = timed_program(session, f"{C}/{workload}", LIMITS)
        of_c, cells = [], []
        for name, route in COLUMNS.items():
            outcome = outcomes[f"{route}/{workload}"]
            if outcome != "pass":
                cells.append(outcome)
                continue
            pairs = sample(session, baseline, timed_program(session, f"{route}/{workload}", LIMITS), PAIRS, LIMITS)
            of_c += [one for one, _ in pairs]
            ratios = [two / one for one, two in pairs]
            cells.append(cell(ratios))
            if median(of_c) >= LONG_NS:
                long[name].append(median(ratios))
        share = share_of_peak(work.work(f"{WORK}/{workload}"), median(of_c), peaks)
        of_peak = f"{share['fraction']:.1%}" if share else ""
        print(f"| {workload} | {median(of_c) / 1000:.3g} | {of_peak} |", " | ".join(cells), "|", flush=True)
    means = [f"{geometric_mean(each):.2f}" if each else "" for each in long.values()]
    print(f"| geometric mean from {LONG_NS // 1000} µs on | | |", " | ".join(means), "|")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "200")
    raise SystemExit(main())
