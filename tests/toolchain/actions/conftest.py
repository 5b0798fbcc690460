"""A link kit for the whole session, and a workbench to make kernels in C, link them and call them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.tools import link, link_kit, run
from mlir_matrix.base.paths import find_home

TRIPLE = "x86_64-linux-musl"
JIT_TRIPLE = "x86_64-linux-gnu.2.17"
STORED = {
    "f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
    "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?",
}  # fmt: skip

#: What a kernel in C needs; ``M<rank>`` are descriptors, ``take<rank>`` allocates the elements of one.
PRELUDE = r"""
typedef long i64; typedef unsigned long u64;
void *_mlir_memref_to_llvm_alloc(u64 bytes);
void *_mlir_memref_to_llvm_aligned_alloc(u64 alignment, u64 bytes);
void _mlir_memref_to_llvm_free(void *start);
typedef struct { void *base; void *data; i64 offset; } M0;
typedef struct { void *base; void *data; i64 offset; i64 size[1], stride[1]; } M1;
typedef struct { void *base; void *data; i64 offset; i64 size[2], stride[2]; } M2;
typedef struct { void *base; void *data; i64 offset; i64 size[3], stride[3]; } M3;
typedef struct { void *base; void *data; i64 offset; i64 size[4], stride[4]; } M4;
#define ENTRY void _mlir_ciface_main
static inline M1 take1(u64 element, i64 n) {
  void *p = _mlir_memref_to_llvm_alloc(n * element);
  return (M1){p, p, 0, {n}, {1}};
}
static inline M0 take0(u64 element) { void *p = _mlir_memref_to_llvm_alloc(element); return (M0){p, p, 0}; }
#define AT(type, m, i) (((type *)(m)->data)[(m)->offset + (i) * (m)->stride[0]])
"""


class Workbench:
    """Makes kernels and calls them, in a folder of the test's own."""

    def __init__(self, folder: Path, cache: Path, kit: Mapping[str, Path]) -> None:
        self.folder = folder
        self._cache = cache
        self._kit = kit

    def compile(self, source: str) -> Path:
        """An object like those of LLVM's JIT: not position independent, large code model."""
        name = hashlib.sha256(source.encode()).hexdigest()[:16]
        path = self.folder / f"{name}.c"
        path.write_text(PRELUDE + source, encoding="utf-8")
        done = subprocess.run(
            [link_kit.zig(), "cc", "-target", TRIPLE, "-O1", "-g0", "-w", "-mcmodel=large", "-fno-pic", "-fno-builtin",
             "-c", path.name, "-o", f"{name}.o"],
            cwd=self.folder, env=link_kit.zig_environment(self._cache), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return path.with_suffix(".o")

    def link(self, kernel: Path) -> Path:
        inputs = {"object": str(kernel), **{name: str(path) for name, path in self._kit.items()}}
        with contextlib.chdir(self.folder):
            link.run(Action(params={}, inputs=inputs, outputs={"kernel": "kernel"}))
        return self.folder / "kernel"

    def call(
        self,
        source: str | Path,
        arguments: Sequence[tuple[str, Any]],
        results: Sequence[tuple[str, Sequence[int | None]]],
        **params: Any,
    ) -> list[Any]:
        """Results of a kernel (C source or an object). Arguments are (dtype, values), results (dtype, shape)."""
        kernel = self.link(source if isinstance(source, Path) else self.compile(source))
        inputs, described = {"kernel": kernel.name}, []
        for index, (dtype, values) in enumerate(arguments):
            array = numpy.array(values, dtype=STORED[dtype])
            numpy.save(self.folder / f"a{index}.npy", array)
            described.append({"name": f"a{index}", "dtype": dtype, "shape": list(array.shape)})
            inputs[f"arg-a{index}"] = f"a{index}.npy"
        wanted = [{"name": f"r{i}", "dtype": dtype, "shape": list(shape)} for i, (dtype, shape) in enumerate(results)]
        outputs = {f"out-r{index}": f"r{index}.npy" for index in range(len(results))}
        params = {"arguments": described, "results": wanted, **params}
        with contextlib.chdir(self.folder):
            run.run(Action(params=params, inputs=inputs, outputs=outputs))
        arrays = [numpy.load(self.folder / path) for path in outputs.values()]
        for (dtype, _), array in zip(results, arrays, strict=True):
            assert array.dtype == numpy.dtype(STORED[dtype])
        return arrays

    def metrics(self) -> dict[str, Any]:
        """What the last call left beside its outputs."""
        metrics: dict[str, Any] = json.loads((self.folder / contract.METRICS).read_text(encoding="utf-8"))
        return metrics


@pytest.fixture(scope="session")
def cache() -> Path:
    folder = find_home().cache / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def kit(
    c_library: Path, tmp_path_factory: pytest.TempPathFactory, driver_sources: Mapping[str, str]
) -> dict[str, Path]:
    """The driver as it is now, and the installed C library."""
    folder = tmp_path_factory.mktemp("kit")
    with contextlib.chdir(folder):
        link_kit.run(Action(params={"triple": TRIPLE}, inputs=driver_sources, outputs={"driver": "driver.o"}))
    return {"driver": folder / "driver.o", "runtime": c_library}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, driver_sources: Mapping[str, str]) -> Path:
    """The driver as a shared library, for what compiles kernels in memory."""
    folder = tmp_path_factory.mktemp("library")
    with contextlib.chdir(folder):
        link_kit.run(Action(params={"triple": JIT_TRIPLE}, inputs=driver_sources, outputs={"library": "driver.so"}))
    return folder / "driver.so"


@pytest.fixture
def bench(tmp_path: Path, cache: Path, kit: Mapping[str, Path]) -> Workbench:
    return Workbench(tmp_path, cache, kit)


@pytest.fixture
def prefix(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes prefixes of scripts, which the worker then has: ``prefix("llvm", "19.1.7", say="#!/bin/sh…")``."""

    def make(name: str = "tools", release: str = "1.0", /, **scripts: str) -> Path:
        root = tmp_path / "prefixes" / name
        (root / ".matrix").mkdir(parents=True)
        (root / "bin").mkdir()
        for program, text in scripts.items():
            (root / "bin" / program).write_text(text, encoding="utf-8")
            (root / "bin" / program).chmod(0o755)
        programs = {program: {"path": f"bin/{program}", "loaded": False} for program in scripts}
        described = {"loader": "", "libraries": [], "programs": programs}
        (root / ".matrix" / "prefix.json").write_text(json.dumps(described), encoding="utf-8")
        contract.prefixes[str(root)] = release
        return root

    before = dict(contract.prefixes)
    yield make
    contract.prefixes.clear()
    contract.prefixes.update(before)
