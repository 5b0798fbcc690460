"""Objects from the LLVM dialect: linked with the real driver, called, and the numbers looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: Adds one to each of four numbers and takes tanh of a fifth, so that it needs memory and libm from outside.
KERNEL = """
func.func @main(%x: memref<4xf32>) -> memref<4xf32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %y = memref.alloc() : memref<4xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %0 = memref.load %x[%i] : memref<4xf32>
    %1 = math.tanh %0 : f32
    memref.store %1, %y[%i] : memref<4xf32>
  }
  return %y : memref<4xf32>
}
"""
LOWER = (
    "convert-scf-to-cf,convert-math-to-llvm,convert-arith-to-llvm,finalize-memref-to-llvm{use-generic-functions=true},"
    "convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"
)


@pytest.fixture(scope="module")
def lowered(environments: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    done = environments.perform(
        "mlir",
        "passes",
        tmp_path_factory.mktemp("lower") / "a",
        params={"passes": LOWER, "backend": "bindings", "bindings": "torch_mlir"},
        inputs={"ir": KERNEL},
        outputs={"ir": "llvm.mlir"},
    )
    assert done.ok, done.outcome
    return str(done.text("ir"))


@pytest.fixture
def compile_(environments: Any, tmp_path: Path) -> Any:
    count = iter(range(100))

    def perform(ir: str, level: Any = 2) -> Any:
        return environments.perform(
            "mlir",
            "object",
            tmp_path / str(next(count)),
            params={"backend": "bindings", "bindings": "torch_mlir", "parameters": {"opt-level": level}},
            inputs={"ir": ir},
            outputs={"object": "kernel.o"},
            stage="codegen",
        )

    return perform


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_object_computes_at_every_level(lowered: str, compile_: Any, bench: Any, level: int) -> None:
    done = compile_(lowered, level)
    assert done.ok, done.outcome
    (result,) = bench.call(done.folder / "kernel.o", [("f32", [0.0, 1.0, -1.0, 20.0])], [("f32", [4])])
    assert result.tolist() == pytest.approx([0.0, 0.7615941559557649, -0.7615941559557649, 1.0], abs=2e-7)


def test_the_bytes_repeat(lowered: str, compile_: Any) -> None:
    first, second = compile_(lowered), compile_(lowered)
    assert first.read("object") == second.read("object")
    assert first.read("object")[:4] == b"\x7fELF"


def test_levels_differ(lowered: str, compile_: Any) -> None:
    assert compile_(lowered, 0).read("object") != compile_(lowered, 3).read("object")


def test_no_path_of_the_machine_is_in_the_object(lowered: str, compile_: Any) -> None:
    done = compile_(lowered)
    assert str(done.folder).encode() not in done.read("object")


@pytest.mark.parametrize("level", [4, -1, "2", True, 1.5])
def test_levels_that_do_not_exist_are_refused(lowered: str, compile_: Any, level: Any) -> None:
    done = compile_(lowered, level)
    assert done.outcome["outcome"] == "codegen-failed"
    assert "must be 0, 1, 2 or 3" in done.outcome["reason"]


def test_a_module_without_the_c_interface_is_refused(compile_: Any) -> None:
    done = compile_("llvm.func @main() { llvm.return }")
    assert done.outcome["reason"].startswith("the IR has no function _mlir_ciface_main")


def test_a_declaration_is_no_entry_point(compile_: Any) -> None:
    done = compile_("llvm.func @_mlir_ciface_main()")
    assert done.outcome["reason"].startswith("the IR has no function _mlir_ciface_main")


def test_ir_that_is_not_llvm_is_refused(compile_: Any) -> None:
    left = "llvm.func @_mlir_ciface_main(%x: i32) { %0 = arith.addi %x, %x : i32 llvm.return }"
    done = compile_(left)
    assert done.outcome["outcome"] == "codegen-failed"
    assert "arith.addi" in done.outcome["diagnostics"]
