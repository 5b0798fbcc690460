"""A catalog of somebody else, made file by file, and what is left of a run when it is over."""

from __future__ import annotations

import io
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy
import numpy.typing

from mlir_matrix.catalog.catalog import REFERENCE as REFERENCE_FILE
from mlir_matrix.catalog.golden_files import RECORD, record_of
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.catalog.yaml_reader import read

#: y = 2 * x for x = 0, 1, 2, 3: what the programs here ought to compute.
WORKLOAD = """\
description: Somebody's program.
inputs:
  x: {shape: [4], dtype: f32, formula: iota()}
outputs:
  y: {shape: [4], dtype: f32}
"""
REFERENCE = "def reference(x):\n    return x * 2\n"
#: Twice the first matrix and the second one.
AXPY = """\
#id = affine_map<(r, c) -> (r, c)>
func.func @main(%x: tensor<7x33xf32>, %y: tensor<7x33xf32>) -> tensor<7x33xf32> {
  %two = arith.constant 2.0 : f32
  %empty = tensor.empty() : tensor<7x33xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<7x33xf32>, tensor<7x33xf32>) outs(%empty : tensor<7x33xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %double = arith.mulf %a, %two : f32
    %sum = arith.addf %double, %b : f32
    linalg.yield %sum : f32
  } -> tensor<7x33xf32>
  return %z : tensor<7x33xf32>
}
"""
#: A step whose passes depend on the release of LLVM, and a test of it.
TURNS = """\
description: Turns named operators into generic ones, from LLVM 22 on.
environment: mlir
accepts: [linalg]
gives: linalg
variants:
  - {when: {llvm: '>=22'}, passes: func.func(linalg-generalize-named-ops)}
  - {when: {llvm: '>=18,<22'}, passes: func.func(canonicalize)}
"""
NAMED = """\
// CHECK: linalg.matmul
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = linalg.matmul ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""


@dataclass(frozen=True)
class Downstream:
    """A catalog folder (``--catalog``)."""

    root: Path

    def write(self, path: str, content: str | bytes) -> Path:
        """Write a file of the catalog."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    def workload(self, name: str, *, document: str = WORKLOAD, reference: str = REFERENCE, **sources: str) -> None:
        """Add a workload that should double its input. ``sources``: ``jax="…"``, ``pytorch="…"``, ``linalg="…"``."""
        folder = f"matrix/workloads/{name}"
        self.write(f"{folder}/workload.yaml", document)
        self.write(f"{folder}/reference.py", textwrap.dedent(reference))
        for framework, source in sources.items():
            ending = "mlir" if framework == "linalg" else "py"
            self.write(f"{folder}/{framework}.{ending}", textwrap.dedent(source))
        self.write(f"golden/{name}/y.npy", npy(numpy.arange(4, dtype=numpy.float64) * 2))
        self.record(name)

    def record(self, name: str) -> None:
        """Write what the goldens of a workload are made from."""
        write_record(self.root, name)


def npy(array: numpy.typing.ArrayLike) -> bytes:
    """Return the bytes of a file with the array."""
    stream = io.BytesIO()
    numpy.save(stream, array)
    return stream.getvalue()


def write_record(root: Path, name: str) -> None:
    """Write what the goldens of a workload are made from, as ``matrix golden update`` does."""
    folder = root / "matrix" / "workloads" / name
    document = Workload.model_validate(read(folder / "workload.yaml", name).data)
    (root / "golden" / name / RECORD).write_text(record_of(document, folder / REFERENCE_FILE))


def processes(*, name: str = "", command: str = "") -> list[str]:
    """Command lines of the living processes that are called ``name…`` or have ``command`` in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            line = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            called = Path("/proc", entry, "comm").read_text()
        except OSError:
            continue
        if (name and called.startswith(name)) or (command and command in line):
            found.append(f"{entry} {called.strip()}: {line}")
    return found


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder: mode, time of change and content or target."""
    seen = {}
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(base, name)
            status = path.lstat()
            data = b""
            if path.is_symlink():
                data = os.fsencode(path.readlink())
            elif path.is_file() and os.access(path, os.R_OK):
                data = path.read_bytes() if status.st_size < 1 << 20 else str(status.st_size).encode()
            seen[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, data)
    return seen
