"""Comparing two float32 arrays of 100 MiB, and texts of 1,000,000 numbers: ratios measured in one run, medians.

benchmarks/run compare

Against ``numpy.allclose``, and against the time of reading both arrays once at the speed of memcpy: half of what it takes to
copy both, since copying writes as much as it reads. fpcmp is built with Zig, where its source (tools/fpcmp.c of llvm-test-suite) is
named by ``FPCMP_SOURCE``, and takes the same texts.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _timing import medians, verdict

from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.compare import compare, native
from mlir_matrix.compare.fast_path import gate
from mlir_matrix.compare.rules import rules
from mlir_matrix.compare.trees import CompareOptions, compare_texts

ELEMENTS = 100 * (1 << 20) // 4
NUMBERS = 1_000_000
RUNS = 9


def main() -> int:
    """Print the ratios; exit code 1 where one is missed."""
    if native.load() is None:
        print("MISS there is no compiled code: matrix toolchain fetch zig brings what makes it")
        return 1
    return 0 if all([*_arrays(), *_texts()]) else 1


def _arrays() -> list[bool]:
    rng = np.random.default_rng(0)
    expected = rng.standard_normal(ELEMENTS, dtype=np.float32)
    actual = expected * (1 + rng.standard_normal(ELEMENTS, dtype=np.float32) * np.float32(1e-6))
    copy = np.empty_like(actual)
    bounds: dict[str, Any] = {"atol": 1e-6, "rtol": 1e-5, "max_ulp": 4}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = compare(actual, expected, **bounds)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert found, found.reason
    assert found.engine == "native"
    assert vars(gate(actual, expected, "f32", Criteria(**bounds))[0]) == vars(
        gate(actual, expected.astype(np.float64), "f32", Criteria(**bounds), golden=True)[0]
    ), "NumPy counts otherwise"

    def copies() -> None:
        np.copyto(copy, actual)
        np.copyto(copy, expected)

    times = medians(
        {
            "compare": lambda: compare(actual, expected, **bounds),
            "numpy.allclose": lambda: np.allclose(actual, expected, rtol=1e-5, atol=1e-6),
            "copying both": copies,
        },
        RUNS,
    )
    for name, seconds in times.items():
        print(f"     {name}: {1e3 * seconds:.1f} ms")
    print(f"     memory above the inputs: {grown:.1f} MiB; over atol {found.over_atol}, over ulp {found.over_ulp}")
    return [
        verdict("numpy.allclose / compare", times["numpy.allclose"] / times["compare"], 10, at_most=False),
        verdict(
            "compare / reading both at memcpy's speed", times["compare"] / (times["copying both"] / 2), 3, at_most=True
        ),
        verdict("memory above the inputs / 16 MiB", grown / 16, 1, at_most=True),
    ]


def _texts() -> list[bool]:
    rng = np.random.default_rng(1)
    values = rng.normal(size=NUMBERS)
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "actual.txt"), Path(folder, "expected.txt")
        for path, numbers in zip(paths, (values * (1 + 1e-9), values), strict=True):
            lines = (" ".join(f"{number:.12g}" for number in row) for row in numbers.reshape(-1, 10).tolist())
            path.write_text("\n".join(lines) + "\n")
        how = CompareOptions(rules=rules(atol=1e-6, rtol=1e-6))
        contenders: dict[str, Callable[[], object]] = {"compare": partial(_compare_texts, paths, how)}
        source = os.environ.get("FPCMP_SOURCE")
        if source:
            contenders["fpcmp"] = partial(
                subprocess.run, [_built(source, folder), "-a", "1e-6", "-r", "1e-6", *paths], check=True
            )
        times = medians(contenders, RUNS)
    for name, seconds in times.items():
        print(f"     {NUMBERS} numbers in text, {name}: {1e3 * seconds:.0f} ms")
    if "fpcmp" not in times:
        print("     fpcmp was not measured: name its source by FPCMP_SOURCE")
        return []
    return [verdict("compare / fpcmp", times["compare"] / times["fpcmp"], 2, at_most=True)]


def _compare_texts(paths: tuple[Path, Path], how: CompareOptions) -> None:
    left, right = (path.read_bytes() for path in paths)
    assert compare_texts(left, right, how)


def _built(source: str, folder: str) -> str:
    program = f"{folder}/fpcmp"
    zig = native.zig()
    assert zig is not None
    variables = {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder, "HOME": folder, "PATH": ""}
    subprocess.run([zig, "cc", "-O2", "-o", program, source, "-lm"], check=True, env=variables)
    return program


if __name__ == "__main__":
    sys.exit(main())
