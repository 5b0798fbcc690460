"""The host code of programs for GPUs, with kernels in Python: launches, arguments of every type, memory, copies, errors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.runtime.gpu_program import GpuProgram, Launch, Memory, Memref
from mlir_matrix.actions.runtime.memrefs import view

SCALARS = {
    "index": ("q", 41), "i64": ("q", -3), "i32": ("i", -(2**31)), "i16": ("h", -5), "i8": ("b", -7), "i1": ("?", True),
    "f64": ("d", 0.1), "f32": ("f", -2.5), "f16": ("e", 1.5),
}  # fmt: skip
MODULE = """\
module attributes {{gpu.container_module}} {{
  func.func @main(%x: memref<4x6xf32>, %n: memref<1xindex>) -> memref<2x3xf32> {{
    %one = arith.constant 1 : index
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %three = arith.constant 3 : index
{constants}
    %part = memref.subview %x[1, 2] [2, 3] [2, 1] : memref<4x6xf32> to memref<2x3xf32, strided<[12, 1], offset: 8>>
    %copy = memref.alloc() : memref<2x3xf32>
    memref.copy %part, %copy : memref<2x3xf32, strided<[12, 1], offset: 8>> to memref<2x3xf32>
    %times = memref.load %n[%zero] : memref<1xindex>
    scf.for %i = %zero to %times step %one {{
      gpu.launch_func @add::@main_kernel blocks in (%two, %three, %one) threads in (%one, %two, %one)
        args(%copy : memref<2x3xf32>, %part : memref<2x3xf32, strided<[12, 1], offset: 8>>)
    }}
    gpu.launch_func @scalars::@main_kernel blocks in (%times, %one, %one) threads in (%one, %one, %one)
      args({arguments})
    return %copy : memref<2x3xf32>
  }}
  gpu.module @add {{
    gpu.func @main_kernel(%arg0: memref<2x3xf32>, %arg1: memref<2x3xf32, strided<[12, 1], offset: 8>>) kernel {{
      gpu.return
    }}
  }}
  gpu.module @scalars {{
    gpu.func @main_kernel({parameters}) kernel attributes {{known_block_size = array<i32: 1, 1, 1>}} {{
      gpu.return
    }}
  }}
}}
"""
TEXT = MODULE.format(
    constants="\n".join(
        f"    %c{at} = arith.constant " + ("true" if kind == "i1" else f"{value} : {kind}")
        for at, (kind, (_, value)) in enumerate(SCALARS.items())
    ),
    arguments=", ".join(f"%c{at} : {kind}" for at, kind in enumerate(SCALARS)),
    parameters=", ".join(f"%arg{at}: {kind}" for at, kind in enumerate(SCALARS)),
)


@pytest.fixture(scope="module")
def program(environments: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = environments.perform(
        "gpu", "recipes/steps/gpu-host/tool.py", tmp_path_factory.mktemp("host") / "it", stage="codegen",
        params={"parameters": {"opt-level": 2}, "kind": "gpu", "programs": ["ziglang"]},
        inputs={"ir": TEXT, "runtime.c": Path(__file__).parents[4] / "recipes/steps/gpu-host/runtime.c"},
        outputs={"out": "program.zip"},
    )  # fmt: skip
    assert done.ok, done.outcome
    return Path(done.folder) / "program.zip"


X = numpy.arange(24, dtype="f4").reshape(4, 6)


def call(program: Path, folder: Path, times: int, launch: Any, memory: Memory | None = None) -> Any:
    """Call the program in a folder with X and the number of launches; return its result."""
    numpy.save(folder / "x.npy", X)
    numpy.save(folder / "n.npy", numpy.array([times]))
    params = {
        "arguments": [{"name": "x", "shape": [4, 6], "dtype": "f32"}, {"name": "n", "shape": [1], "dtype": "i64"}],
        "results": [{"name": "y", "shape": [2, 3], "dtype": "f32"}],
    }
    inputs = {f"arg-{name}": str(folder / f"{name}.npy") for name in ("x", "n")}
    GpuProgram(str(program)).call(Action(params=params, inputs=inputs, outputs={"out-y": "y.npy"}), launch, memory)
    return numpy.load("y.npy")


def array(memref: Memref) -> Any:
    words = [memref.allocated, memref.aligned, memref.offset, *memref.sizes, *memref.strides]
    return view(words, numpy.dtype("f4"))


def test_launches_and_their_arguments(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[Launch] = []

    def launch(made: Launch) -> None:
        seen.append(made)
        if made.kernel == "add":
            whole, part = made.arguments
            assert isinstance(whole, Memref)
            assert isinstance(part, Memref)
            assert (part.offset, part.sizes, part.strides, part.element) == (8, (2, 3), (12, 1), "f32")
            array(whole)[...] += array(part)

    assert (call(program, tmp_path, 3, launch) == 4 * X[1:4:2, 2:5]).all()
    assert [each.kernel for each in seen] == ["add"] * 3 + ["scalars"]
    assert (seen[0].grid, seen[0].block, seen[0].shared_bytes) == ((2, 3, 1), (1, 2, 1), 0)
    assert [each.pointer for each in seen[0].parameters] == 2 * [True, True, *[False] * 5]
    assert seen[-1].arguments == [struct.pack(code, value) for code, value in SCALARS.values()]


def test_a_launch_without_points_does_nothing(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (call(program, tmp_path, 0, pytest.fail) == X[1:4:2, 2:5]).all()


def test_an_error_in_a_launch_ends_the_call(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = []

    def launch(made: Launch) -> None:
        seen.append(made.kernel)
        raise ActionFailed("the device is gone")

    with pytest.raises(ActionFailed, match="the device is gone"):
        call(program, tmp_path, 3, launch)
    assert seen == ["add"]


def test_memory_comes_from_the_device(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given: dict[int, Any] = {}

    def allocate(size: int) -> int:
        memory = numpy.zeros(size, "u1")
        given[memory.ctypes.data] = memory
        return int(memory.ctypes.data)

    made: list[Launch] = []
    call(program, tmp_path, 1, made.append, Memory(allocate, given.pop))
    (whole, part) = made[0].arguments
    assert isinstance(whole, Memref)
    assert isinstance(part, Memref)
    assert whole.allocated in given
    assert part.allocated not in given
