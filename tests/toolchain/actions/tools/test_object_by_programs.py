"""Objects by mlir-translate, opt and llc: linked with the real driver and called, here and, emulated, on another machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.mlir import by_programs
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.tools.object import LISTINGS
from mlir_matrix.environments.installed.prefix import read_prefix

#: A product and a sum, rounded twice, of each of four numbers; and tanh, so that libm is needed from outside.
KERNEL = """
func.func @main(%x: memref<4xf32>) -> memref<4xf32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %y = memref.alloc() : memref<4xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %0 = memref.load %x[%i] : memref<4xf32>
    %1 = math.tanh %0 : f32
    %2 = arith.mulf %1, %0 : f32
    %3 = arith.addf %2, %0 : f32
    memref.store %3, %y[%i] : memref<4xf32>
  }
  return %y : memref<4xf32>
}
"""
FUSED = KERNEL.replace("%3 = arith.addf %2, %0", "%3 = math.fma %1, %0, %0")
LOWER = (
    "convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,"
    "finalize-memref-to-llvm{use-generic-functions=true},convert-func-to-llvm,convert-cf-to-llvm,"
    "reconcile-unrealized-casts"
)
OLD = (
    "convert-scf-to-cf,func.func(convert-math-to-llvm),convert-math-to-libm,func.func(convert-arith-to-llvm),"
    "convert-memref-to-llvm{use-generic-functions=true},convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"
)
ARM = {"triple": "aarch64-unknown-linux-musl", "cpu": "generic", "features": "+neon"}
#: The elements of ELF's header that name the machine: x86-64 and AArch64.
X86_64, AARCH64 = 62, 183


@pytest.fixture(scope="module")
def lower(environments: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """KERNEL and the like in the LLVM dialect, by a release; made once."""
    made: dict[tuple[str, str], str] = {}

    def perform(release: str = "22", kernel: str = KERNEL) -> str:
        if (release, kernel) not in made:
            done = environments.perform(
                f"mlir@llvm={release}", "passes", tmp_path_factory.mktemp("lower") / "a",
                params={"passes": LOWER if int(release) > 16 else OLD, "backend": "programs"},
                inputs={"ir": kernel}, outputs={"ir": "ir.mlir"},
            )  # fmt: skip
            assert done.ok, done.outcome
            made[release, kernel] = done.text("ir")
        return made[release, kernel]

    return perform


@pytest.fixture
def compile_(environments: Any, tmp_path: Path) -> Any:
    count = iter(range(100))

    def perform(ir: str, release: str = "22", **parameters: Any) -> Any:
        return environments.perform(
            f"mlir@llvm={release}", "object", tmp_path / str(next(count)),
            params={"backend": "programs", "parameters": parameters},
            inputs={"ir": ir}, outputs={"object": "kernel.o"}, stage="codegen",
        )  # fmt: skip

    return perform


def disassembled(environments: Any, path: Path) -> str:
    (root,) = environments.require("codegen").roots(environments.packages)
    words = [*read_prefix(Path(root)).argv(root, "llvm-objdump"), "-d", "--no-show-raw-insn", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("release", "level"), [("15", 2), ("16", 2), ("22", 0), ("22", 1), ("22", 2), ("22", 3)])
def test_the_object_computes(lower: Any, compile_: Any, bench: Any, release: str, level: int) -> None:
    done = compile_(lower(release), release, **{"opt-level": level})
    assert done.ok, done.outcome
    x = numpy.array([0.0, 1.0, -1.0, 0.1], dtype="f4")
    (result,) = bench.call(done.folder / "kernel.o", [("f32", x)], [("f32", [4])])
    numpy.testing.assert_allclose(result, numpy.tanh(x.astype("f8")) * x + x, rtol=3e-7)
    assert done.read("object")[18] == X86_64


def test_nothing_is_contracted_but_what_asks_for_it(environments: Any, lower: Any, compile_: Any) -> None:
    """On a machine that always has the instruction, at the level that looks for it."""
    for kernel in (KERNEL, FUSED):
        done = compile_(lower(kernel=kernel), **ARM, **{"opt-level": 3})
        assert done.ok, done.outcome
        assert done.read("object")[18] == AARCH64
        assert ("fmadd" in disassembled(environments, done.folder / "kernel.o")) == (kernel == FUSED)


def test_the_same_bytes_on_every_machine(lower: Any, compile_: Any) -> None:
    """Nothing of the machine that it is compiled on gets into it: neither its CPU nor its folders."""
    given = compile_(lower(), triple="x86_64-unknown-linux-musl", cpu="x86-64-v2")
    done = compile_(lower())
    assert done.read("object") == given.read("object")
    assert str(done.folder).encode() not in done.read("object")
    assert compile_(lower(), cpu="x86-64-v4", **{"opt-level": 3}).read("object") != given.read("object")


def test_listings_of_each_program(environments: Any, lower: Any, compile_: Any, tmp_path: Path) -> None:
    """The object is the same with and without."""
    done = environments.perform(
        "mlir@llvm=22", "object", tmp_path / "listed",
        params={"backend": "programs", "parameters": {}},
        inputs={"ir": lower()}, outputs={"object": "kernel.o", **LISTINGS}, stage="codegen",
    )  # fmt: skip
    assert done.ok, done.outcome
    assert done.read("object") == compile_(lower()).read("object")
    assert "target triple" not in done.text("translated")
    assert "x86-64-v2" in done.text("optimised")
    assert ".globl\t_mlir_ciface_main" in done.text("assembly")


@pytest.mark.parametrize(("release", "words"), [("15.0.6", ["-fp-contract=off"]), ("24.0.0+deb.1", []), ("main", [])])
def test_contraction_is_switched_off_where_there_is_a_switch(
    monkeypatch: pytest.MonkeyPatch, release: str, words: list[str]
) -> None:
    monkeypatch.setattr(programs, "release", lambda _program: release)
    assert by_programs.uncontracted() == words


@pytest.mark.parametrize("level", [4, -1, "2", True, 1.5])
def test_levels_that_do_not_exist_are_refused(compile_: Any, level: Any) -> None:
    done = compile_("", **{"opt-level": level})
    assert done.outcome["outcome"] == "codegen-failed"
    assert "must be 0, 1, 2 or 3" in done.outcome["reason"]


@pytest.mark.parametrize(
    ("ir", "parameters", "reason"),
    [
        ("llvm.func @main() { llvm.return }", {}, "the IR has no function _mlir_ciface_main"),
        ("llvm.func @_mlir_ciface_main()", {}, "the IR has no function _mlir_ciface_main"),
        (KERNEL, {}, "the translation to LLVM IR failed: "),
        ("llvm.func @_mlir_ciface_main(", {}, "the translation to LLVM IR failed: expected"),
        ("llvm.func @_mlir_ciface_main() { llvm.return }", {"triple": "pdp11-dec-bsd"}, "LLVM's optimiser failed"),
    ],
)
def test_what_cannot_be_compiled(compile_: Any, ir: str, parameters: dict[str, str], reason: str) -> None:
    done = compile_(ir, **parameters)
    assert done.outcome["outcome"] == "codegen-failed"
    assert done.outcome["reason"].startswith(reason)
    assert str(done.folder) not in str(done.outcome)
