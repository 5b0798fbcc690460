"""The driver that measures kernels: it computes what the other one computes, at equal addresses in each call."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.tools import link, link_kit
from mlir_matrix.base.paths import repository
from mlir_matrix.plan.run_kernels import BENCH_SOURCES

TRIPLE = "x86_64-linux-musl"
FREES = """
ENTRY(M1 *r, M1 *x) {
  void *kept = 0;
  for (int i = 0; i < 3; i++) {
    void *scratch = _mlir_memref_to_llvm_alloc(1000);
    if (kept && kept != scratch) return; /* the exact size is used again */
    kept = scratch;
    _mlir_memref_to_llvm_free(scratch);
  }
  *r = take1(8, 3);
  AT(i64, r, 0) = (i64)kept; AT(i64, r, 1) = (i64)r->data;
  AT(i64, r, 2) = (i64)_mlir_memref_to_llvm_aligned_alloc(4096, 5);
}
"""
ADDS_TO_ITS_ARGUMENT = "ENTRY(M1 *r, M1 *x) { AT(float, x, 0) += 1; *r = *x; }"


@pytest.fixture(scope="session")
def measured(c_library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("measured")
    sources = {Path(path).name: str(repository() / path) for path in BENCH_SOURCES}
    with contextlib.chdir(folder):
        link_kit.run(Action(params={"triple": TRIPLE}, inputs=sources, outputs={"bench": "bench.o"}))
    return {"driver": str(folder / "bench.o"), "runtime": str(c_library)}


def measure(bench: Any, kit: dict[str, str], source: str, out: str, *words: str) -> tuple[Any, dict[str, Any]]:
    """Return the result and the costs of a kernel of one f32 argument of 5 elements."""
    with contextlib.chdir(bench.folder):
        link.run(Action(params={}, inputs={"object": str(bench.compile(source)), **kit}, outputs={"kernel": "kernel"}))
        numpy.save("x.npy", numpy.arange(5, dtype="f4"))
        command: Sequence[str] = ("./kernel", "--in", "f32:5:x.npy", "--out", f"{out}:y.npy", "--timings", "costs.json")
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return numpy.load("y.npy"), json.loads(Path("costs.json").read_text())


def test_each_call_has_equal_addresses(bench: Any, measured: dict[str, str]) -> None:
    found = [
        [int(address) % 4096 for address in measure(bench, measured, FREES, "i64:3", *words)[0]]
        for words in (("--calls", "1", "--batches", "1"), ("--calls", "100", "--batches", "7"), ("--count",))
    ]
    assert found[0] == found[1] == found[2]
    assert found[0][0] % 64 == found[0][1] % 64 == found[0][2] == 0


def test_costs_are_those_of_one_call(bench: Any, measured: dict[str, str]) -> None:
    _, costs = measure(bench, measured, FREES, "i64:3", "--calls", "10", "--batches", "4")
    assert (costs["allocations"], costs["total_bytes"], costs["peak_bytes"]) == (5, 3029, 1000)
    assert len(costs["batch_ns"]) == 4
    assert costs["calls"] == 10
    assert costs["clock_ns"] > 0


@pytest.mark.parametrize("words", [("--calls", "3"), ("--count",)])
def test_an_argument_that_is_written_is_restored(bench: Any, measured: dict[str, str], words: Sequence[str]) -> None:
    result, _ = measure(bench, measured, ADDS_TO_ITS_ARGUMENT, "f32:5", *words)
    assert result.tolist() == [1, 1, 2, 3, 4]
