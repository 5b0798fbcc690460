"""Kernels that MLIR's own runner compiles in memory: the same values, the same verdicts and the same words as from ``run``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.contract import Action, ActionFailed, MachineFailed
from mlir_matrix.actions.tools import run_jit
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.recipes import ResolvedStep, resolve_step
from support.downstream import npy

#: The oldest, the last one with typed pointers, the last one with the runner's old name, and one with the new name.
RELEASES = ("15", "16", "19", "22")
#: Results of different ranks, and functions of libm, of the kernel's own under names of C's, and of the driver's.
STEP = Path(__file__).parents[4] / "recipes" / "steps" / "loops-to-llvm"
KERNEL = """
func.func private @round(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  return %y : f32
}
func.func private @fail(%x: f32) -> f32 attributes {passthrough = ["noinline"]} {
  %y = func.call @round(%x) : (f32) -> f32
  return %y : f32
}
func.func @main(%a: memref<f32>, %x: memref<?xf32>, %z: memref<2x3xi64>) -> (memref<?xf32>, memref<f32>, memref<2x3xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %y = memref.alloc(%n) : memref<?xf32>
  %left = memref.alloc(%n) : memref<?xf32>
  %freed = memref.alloc(%n) : memref<?xf32>
  memref.dealloc %freed : memref<?xf32>
  %s = memref.alloc() : memref<f32>
  %0 = memref.load %a[] : memref<f32>
  scf.for %i = %c0 to %n step %c1 {
    %1 = memref.load %x[%i] : memref<?xf32>
    %2 = math.tanh %1 : f32
    %3 = func.call @fail(%2) : (f32) -> f32
    %4 = arith.mulf %3, %0 : f32
    memref.store %4, %y[%i] : memref<?xf32>
    memref.store %1, %s[] : memref<f32>
    memref.store %1, %left[%i] : memref<?xf32>
  }
  return %y, %s, %z : memref<?xf32>, memref<f32>, memref<2x3xi64>
}
"""
#: Does something and gives back what came in.
BARE = """
llvm.func @memrefCopy(i64, !llvm.ptr, !llvm.ptr)
llvm.func @_mlir_memref_to_llvm_alloc(i64) -> !llvm.ptr
llvm.func @_mlir_memref_to_llvm_free(!llvm.ptr)
llvm.func @_mlir_ciface_main(%r: !llvm.ptr, %x: !llvm.ptr) {{
  {}
  %c = llvm.load %x : !llvm.ptr -> !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  llvm.store %c, %r : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>, !llvm.ptr
  llvm.return
}}
"""
#: A byte behind eight that were asked for.
PAST_THE_END = """
  %n = llvm.mlir.constant(8 : i64) : i64
  %p = llvm.call @_mlir_memref_to_llvm_alloc(%n) : (i64) -> !llvm.ptr
  %q = llvm.getelementptr %p[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %v = llvm.mlir.constant(1 : i8) : i8
  llvm.store volatile %v, %q : i8, !llvm.ptr
"""
NO_RESULT = """
  %t = llvm.mlir.constant(1 : i1) : i1
  llvm.cond_br %t, ^end, ^more
^end:
  llvm.return
^more:
"""
FREED_BY_A_STRANGER = "llvm.call @_mlir_memref_to_llvm_free(%x) : (!llvm.ptr) -> ()"
NOWHERE = """
  %a = llvm.mlir.constant(8 : i64) : i64
  %p = llvm.inttoptr %a : i64 to !llvm.ptr
  llvm.store volatile %a, %p : i64, !llvm.ptr
"""


def module(body: str, before: str = "") -> str:
    return f"module {{\n{before}{BARE.format(body)}}}\n"


@pytest.fixture
def call(environments: Any, library: Path, tmp_path: Path) -> Any:
    """Compiles a kernel in the LLVM dialect and, if that can be done, runs it.

    The arguments are arrays, the results (dtype, shape).
    """
    count = iter(range(100))

    def perform(
        ir: str,
        arguments: Sequence[Any] = (numpy.arange(3, dtype="f4"),),
        results: Sequence[tuple[str, Sequence[int | None]]] = (("f32", [3]),),
        *,
        release: str = "22",
        **more: Any,
    ) -> Any:
        files, described = {}, []
        for index, array in enumerate(arguments):
            files[f"arg-a{index}"] = npy(array)
            dtype = {"f4": "f32", "i8": "i64"}[array.dtype.str[1:]]
            described.append({"name": f"a{index}", "dtype": dtype, "shape": list(array.shape)})
        wanted = [
            {"name": f"r{index}", "dtype": dtype, "shape": list(shape)} for index, (dtype, shape) in enumerate(results)
        ]
        environment, number = f"mlir@llvm={release}" if release else "mlir", next(count)
        compiled = environments.perform(
            environment, "compile_jit", tmp_path / f"compile{number}",
            params={name: value for name, value in more.items() if name == "parameters"},
            inputs={"ir": ir, "driver": library}, outputs={"ir": "kernel.mlir"}, stage="codegen",
        )  # fmt: skip
        if not compiled.ok:
            return compiled
        assert sorted(path.name for path in compiled.folder.iterdir()) == sorted(
            ["in", "action.json", "log.txt", "outcome.json", "kernel.mlir"]
        )
        return environments.perform(
            environment, "run_jit", tmp_path / f"call{number}",
            params={"arguments": described, "results": wanted, **more},
            inputs={"ir": compiled.text("ir"), "driver": library, **files},
            outputs={f"out-r{index}": f"r{index}.npy" for index in range(len(results))}, stage="run",
        )  # fmt: skip

    return perform


def lowered(current: Session, environments: Any, folder: Path, release: str) -> str:
    """KERNEL in the LLVM dialect, by the recipe of the repository."""
    recipe = resolve_step(current.catalog, STEP.name, Pins(current.catalog).override(f"llvm={release}"))
    assert isinstance(recipe, ResolvedStep)
    files = {"schedule": (STEP / recipe.schedule).read_text(encoding="utf-8")} if recipe.schedule else {}
    done = environments.perform(
        recipe.environment, recipe.tool, folder,
        params={"passes": recipe.passes, "backend": recipe.backend}, inputs={"ir": KERNEL, **files}, outputs={"ir": "ir.mlir"},
    )  # fmt: skip
    assert done.ok, done.outcome
    return str(done.text("ir"))


@pytest.mark.parametrize(("release", "level"), [*((release, 2) for release in RELEASES), ("22", 0), ("22", 3)])
def test_a_kernel_computes(
    current: Session, environments: Any, call: Any, tmp_path: Path, release: str, level: int
) -> None:
    ir = lowered(current, environments, tmp_path / "lower", release)
    x = numpy.array([0.0, 1.0, -1.0, 0.1, 7.0], dtype="f4")
    z = numpy.arange(6, dtype="i8").reshape(2, 3)
    results = [("f32", [None]), ("f32", []), ("i64", [2, 3])]
    done = call(
        ir, [numpy.array(3, dtype="f4"), x, z], results, release=release, repeat=3, parameters={"opt-level": level}
    )
    assert done.ok, done.outcome
    y, s, same = (numpy.load(done.folder / path) for path in done.outputs.values())
    numpy.testing.assert_allclose(y, numpy.tanh(x.astype("f8")) * 6, rtol=3e-7)
    assert s == x[-1]
    assert (same == z).all()
    metrics = json.loads((done.folder / "metrics.json").read_text(encoding="utf-8"))
    assert len(metrics.pop("kernel_ns")) == 3
    assert metrics == {"allocations": 4, "peak_bytes": 60, "leaked_blocks": 1, "leaked_bytes": 20, "poisons": 2}
    assert sorted(path.name for path in done.folder.iterdir()) == sorted(
        ["in", "action.json", "log.txt", "outcome.json", "metrics.json", *done.outputs.values()]
    )


@pytest.mark.parametrize("release", ["19", "22"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (PAST_THE_END, "the kernel wrote past the end of allocation 4 (8 bytes): byte 1 behind it"),
        (FREED_BY_A_STRANGER, "the kernel frees a descriptor of an argument (40 bytes), which is not its own"),
        (NO_RESULT, "result 0: the kernel returned fewer results than declared: r0.npy is missing"),
        (
            "%c3 = llvm.mlir.constant(3 : i32) : i32\n  llvm.call @exit(%c3) : (i32) -> ()",
            "the kernel ended by itself, with exit code 3",
        ),
        (
            "%c1 = llvm.mlir.constant(1 : i32) : i32\n  llvm.call @exit(%c1) : (i32) -> ()",
            "the kernel ended by itself, with exit code 1",
        ),
    ],
    ids=["bounds", "free", "nothing", "exit 3", "exit 1"],
)
def test_what_the_driver_says(call: Any, release: str, body: str, reason: str) -> None:
    done = call(module(body, "llvm.func @exit(i32)\n"), release=release)
    assert done.outcome["outcome"] == "run-failed"
    assert done.outcome["reason"] == reason
    assert str(done.folder) not in str(done.outcome)


@pytest.mark.parametrize("release", RELEASES[2:])
@pytest.mark.parametrize(
    ("body", "signal"),
    [
        (NOWHERE, "SIGSEGV"),
        ("llvm.call @abort() : () -> ()", "SIGABRT"),
        ("%s = llvm.mlir.constant(6 : i32) : i32\n  %t = llvm.call @raise(%s) : (i32) -> i32", "SIGABRT"),
    ],
    ids=["address", "abort", "signal"],
)
def test_a_crash_is_a_crash(call: Any, release: str, body: str, signal: str) -> None:
    """With nothing of the compiler's own words, which hold addresses."""
    done = call(module(body, "llvm.func @abort()\nllvm.func @raise(i32) -> i32\n"), release=release)
    assert (done.outcome["outcome"], done.outcome["signal"]) == ("crashed", signal)
    assert done.outcome.get("diagnostics", "") == ""


TENSOR = {"name": "y", "dtype": "f32", "shape": [3]}


def told(tmp_path: Path, prefix: Callable[..., Path], script: str) -> None:
    """Run a kernel by a runner that does what a script does, in a folder of its own."""
    prefix(**{"mlir-runner": f"#!/bin/sh\n{script}\n"})
    (tmp_path / "kernel.mlir").write_text("module {\n}\n", encoding="utf-8")
    params = {"arguments": [], "results": [TENSOR]}
    inputs = {"ir": "kernel.mlir", "driver": "driver.so"}
    with contextlib.chdir(tmp_path):
        run_jit.run(Action(params=params, inputs=inputs, outputs={"out-y": "y.npy"}))


def test_a_command_line_that_the_driver_cannot_read_is_the_machines_trouble(
    tmp_path: Path, prefix: Callable[..., Path]
) -> None:
    """Although it is still there then."""
    said = "the driver's command line cannot be opened: Too many open files"
    with pytest.raises(MachineFailed, match=f"^{said}$"):
        told(tmp_path, prefix, f'echo "{said}" >&2\nexit 74')


@pytest.mark.parametrize("words", ["kept", "taken"])
def test_diagnostics_name_no_folder_of_the_machine(tmp_path: Path, prefix: Callable[..., Path], words: str) -> None:
    """Whoever says them: the compiler or, once the words are taken, the kernel and the driver."""
    take = '/bin/rm "$MATRIX_DRIVER_ARGUMENTS"' if words == "taken" else ":"
    say = f'echo "in {tmp_path}/kernel.mlir"; echo "of $0: {tmp_path}/y.npy" >&2; exit 80'
    with pytest.raises(ActionFailed) as caught:
        told(tmp_path, prefix, f"{take}\n{say}")
    assert caught.value.diagnostics == "in kernel.mlir\nof bin/mlir-runner: y.npy\n"
    assert str(tmp_path) not in caught.value.reason
    assert caught.value.reason.endswith("of bin/mlir-runner: y.npy" if words == "taken" else "in kernel.mlir")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.mlir", "prefixes"]


def test_the_runner_sees_nothing_of_the_machine(
    tmp_path: Path, prefix: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "1")
    told(tmp_path, prefix, '/usr/bin/env > seen\n: > y.npy\n/bin/rm "$MATRIX_DRIVER_ARGUMENTS"')
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text(encoding="utf-8").splitlines())
    assert (seen["PATH"], seen["LC_ALL"]) == ("", "C")
    assert seen.keys() - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "LC_ALL", "JITDUMPDIR", "MATRIX_DRIVER_ARGUMENTS"}


@pytest.mark.parametrize("level", [4, -1, "2", True, 1.5])
def test_levels_that_do_not_exist_are_refused(level: Any) -> None:
    with pytest.raises(ActionFailed, match="must be 0, 1, 2 or 3"):
        run_jit.run(Action(params={"parameters": {"opt-level": level}}, inputs={}, outputs={}))
