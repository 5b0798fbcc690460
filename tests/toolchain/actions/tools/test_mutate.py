"""Mutations of IR, planted in the real environment in loops small enough to read: each verifies, and differs as it is meant to."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.mutation.ir_mutations import LIBERTIES, MISTAKES

#: y = sum_k x[i, k] * w[k] / w[i], in a buffer that begins as zero.
LOOPS = """\
module {
  func.func @main(%x: memref<5x11xf32>, %w: memref<11xf32>) -> memref<5xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %c11 = arith.constant 11 : index
    %zero = arith.constant 0.000000e+00 : f32
    %y = memref.alloc() : memref<5xf32>
    scf.for %i = %c0 to %c5 step %c1 {
      memref.store %zero, %y[%i] : memref<5xf32>
    }
    scf.for %i = %c0 to %c5 step %c1 {
      scf.for %k = %c0 to %c11 step %c1 {
        %0 = memref.load %x[%i, %k] : memref<5x11xf32>
        %1 = memref.load %w[%k] : memref<11xf32>
        %2 = memref.load %y[%i] : memref<5xf32>
        %3 = arith.mulf %0, %1 : f32
        %4 = arith.addf %2, %3 : f32
        memref.store %4, %y[%i] : memref<5xf32>
      }
    }
    scf.for %i = %c0 to %c5 step %c1 {
      %5 = memref.load %y[%i] : memref<5xf32>
      %6 = memref.load %w[%i] : memref<11xf32>
      %7 = arith.divf %5, %6 : f32
      memref.store %7, %y[%i] : memref<5xf32>
    }
    return %y : memref<5xf32>
  }
}
"""
#: Sums of i32 that a loop carries, each of them written.
PREFIXES = """\
module {
  func.func @main(%x: memref<9xi32>, %y: memref<9xi32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %zero = arith.constant 0 : i32
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%sum = %zero) -> (i32) {
      %0 = memref.load %x[%i] : memref<9xi32>
      %1 = arith.addi %sum, %0 : i32
      memref.store %1, %y[%i] : memref<9xi32>
      scf.yield %1 : i32
    }
    return
  }
}
"""


@pytest.fixture
def perform(environments: Any, tmp_path: Path) -> Any:
    count = iter(range(100))

    def run(ir: str, **params: Any) -> Any:
        outputs = {"ir": "out.mlir"} if params else {"sites": "sites.json"}
        folder = tmp_path / str(next(count))
        return environments.perform("mlir", "mutate", folder, params=params, inputs={"ir": ir}, outputs=outputs)

    return run


def change(perform: Any, ir: str, mutation: str, site: int = 0) -> tuple[list[str], list[str]]:
    """The lines that a mutation takes away and those that it adds, without the names of values."""
    done = perform(ir, mutation=mutation, site=site)
    assert done.ok, done.outcome
    was, now = ([_plain(line) for line in text.splitlines()] for text in (ir, done.text("ir")))
    differences = [line for line in difflib.ndiff(was, now) if line[0] in "-+"]
    gone = [line[2:] for line in differences if line[0] == "-"]
    return gone, [line[2:] for line in differences if line[0] == "+"]


def _plain(line: str) -> str:
    """An operation without its operands, but for the kind of them."""
    words = line.strip().partition(" = ")[2] if " = " in line and "scf.for" not in line else line.strip()
    return words.split(" ")[0]


def test_the_sites_are_counted(perform: Any) -> None:
    found = json.loads(perform(LOOPS).text("sites"))
    assert found == {
        "drop-last-iteration": 1,
        "skip-remainder": 3,
        "swap-operands": 1,
        "round-to-bf16": 2,
        "narrow-accumulator-bf16": 1,
        "narrow-accumulator-f16": 1,
        "off-by-one-index": 6,
        "wrong-constant": 1,
        "stale-buffer": 1,
        "allowed-fma": 1,
        "allowed-contract": 1,
        "allowed-reverse": 1,
        "allowed-reassociate": 1,
    }
    # Whole sums are written on the way: this loop must not go backwards.
    found = json.loads(perform(PREFIXES).text("sites"))
    assert found == {"drop-last-iteration": 1, "narrow-accumulator-int": 1, "off-by-one-index": 1, "wrong-constant": 1}


@pytest.mark.parametrize(
    ("mutation", "gone", "added"),
    [
        ("swap-operands", [], []),
        ("stale-buffer", ["memref.store"], []),
        ("allowed-fma", ["arith.addf"], ["math.fma"]),
        ("allowed-contract", [], []),
        ("allowed-reassociate", [], []),
    ],
)
def test_what_is_replaced(perform: Any, mutation: str, gone: list[str], added: list[str]) -> None:
    taken, put = change(perform, LOOPS, mutation)
    assert (taken, put) == (gone, added)


@pytest.mark.parametrize(
    ("mutation", "operations"),
    [
        ("drop-last-iteration", ["arith.muli", "arith.subi"]),
        ("skip-remainder", ["arith.muli", "arith.subi"]),
        ("round-to-bf16", ["arith.bitcast", "arith.shrui", "arith.andi", "arith.addi", "arith.andi"]),
        ("narrow-accumulator-f16", ["arith.bitcast", "arith.shrui", "arith.addi"]),
        ("off-by-one-index", ["memref.dim", "arith.addi", "arith.minsi"]),
        ("wrong-constant", ["arith.constant"]),
        ("allowed-reverse", ["arith.subi", "arith.subi"]),
    ],
)
def test_what_joins(perform: Any, mutation: str, operations: list[str]) -> None:
    _, added = change(perform, LOOPS, mutation)
    for operation in set(operations):
        assert added.count(operation) >= operations.count(operation), added


def test_operands_change_places(perform: Any) -> None:
    text = perform(LOOPS, mutation="swap-operands", site=0).text("ir")
    lines = {line.split(" = ")[0].strip(): line for line in text.splitlines() if " = " in line}
    (division,) = [line for line in lines.values() if "arith.divf" in line]
    first, second = division.split("arith.divf ")[1].split(" : ")[0].split(", ")
    assert "%arg1" in lines[first], "the divisor comes first"
    assert "%alloc" in lines[second]


def test_flags_stand_on_arithmetic(perform: Any) -> None:
    text = perform(LOOPS, mutation="allowed-contract", site=0).text("ir")
    assert text.count("fastmath<contract>") == 3
    assert "fastmath<reassoc>" in perform(LOOPS, mutation="allowed-reassociate", site=0).text("ir")


def test_integers_are_cut_to_half(perform: Any) -> None:
    text = perform(PREFIXES, mutation="narrow-accumulator-int", site=0).text("ir")
    assert "arith.trunci" in text
    assert "i32 to i16" in text


def test_sites_are_different_places(perform: Any) -> None:
    texts = {perform(LOOPS, mutation="off-by-one-index", site=site).text("ir") for site in range(6)}
    assert len(texts) == 6


def test_a_site_that_is_not_there_is_a_failure(perform: Any) -> None:
    done = perform(LOOPS, mutation="wrong-constant", site=1)
    assert done.outcome["reason"] == "wrong-constant has 1 sites here; site 1 does not exist"


def test_an_unknown_mutation_is_a_failure(perform: Any) -> None:
    assert "unknown mutation 'sabotage'" in perform(LOOPS, mutation="sabotage", site=0).outcome["reason"]


def test_names_say_what_must_pass() -> None:
    assert all(name.startswith("allowed-") for name in LIBERTIES)
    assert not any(name.startswith(("allowed-", "output-")) for name in MISTAKES)
