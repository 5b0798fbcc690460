"""Sources in C, Fortran, TOSA, sparse tensors and hardware; loops divided among threads; and what importers refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.workspace import Workspace

#: A test of each language, with the environments that it needs beside the usual ones.
ROWS = {
    "c/native/x86_64/matmul": ["clang", "codegen"],
    "fortran/native/x86_64/softmax": ["flang", "codegen"],
    "tosa/tosa-loops/x86_64/matmul": ["torch-mlir"],
    "sparse/sparsifier/x86_64/csr_matvec": ["mlir"],
    "circt/circt-verilog/icarus/mac": ["circt", "icarus"],
    "mlir/linalg-openmp/x86_64-openmp+threads4/matmul": ["shared", "openmp"],
}
WORKLOAD = """\
description: Twice the input.
dims: {N: 8}
inputs: {x: {shape: [N], dtype: i16, formula: "integers(-9, 9)", seed: 1}}
outputs: {y: {shape: [N], dtype: i32, compare: exact}}
golden: computed
"""
C = "void workload(const int16_t x[N], int32_t y[N]) { for (int i = 0; i < %s; i++) y[i] = 2 * x[i]; }"
FORTRAN = """\
subroutine workload(x, y) bind(c)
  integer(%s), intent(in) :: x(N)
  integer(4), intent(out) :: y(N)
  y = 2 * x
end subroutine
"""
HARDWARE = """\
hw.module @main(in %clk : !seq.clock, in %rst : i1, in %x : i16, out y : i32) {
  %zero = hw.constant 0 : i16
  %y = comb.concat %zero, %x : i16, i16
  hw.output %y : i32
}
"""
#: The sources of a workload, and the outcome and reason of its tests.
WRONG = {
    "types": (
        {"kernel.c": C % "N", "kernel.f90": FORTRAN % 4, "hw.mlir": HARDWARE.replace("out y", "out z")},
        {
            "c/native/x86_64/types": ("pass", ""),
            "fortran/native/x86_64/types": ("import-failed", "declared are !fir.ref<!fir.array<8xi16>>"),
            "circt/circt-verilog/icarus/types": ("import-failed", "output y : i32>"),
        },
    ),
    "numbers": (
        {"kernel.c": C % "N + 1", "kernel.f90": FORTRAN % 2, "hw.mlir": HARDWARE},
        {
            "c/native/x86_64/numbers": ("run-failed", "the kernel wrote past the end"),
            "fortran/native/x86_64/numbers": ("pass", ""),
            "circt/circt-verilog/icarus/numbers": ("mismatch", ""),
        },
    ),
    "sizes": (
        {"kernel.c": "void workload(const int16_t x[N], int64_t y[N]) {}", "hw.mlir": HARDWARE.replace("%x : i16", "%z : i16", 1)},
        {
            "c/native/x86_64/sizes": ("import-failed", "conflicting types for 'workload'"),
            "circt/circt-verilog/icarus/sizes": ("import-failed", "undeclared SSA value"),
        },
    ),
}  # fmt: skip


def test_every_language_gives_the_golden(workspace: Workspace, environments: Any) -> None:
    for name in sorted({name for names in ROWS.values() for name in names}):
        environments.require(name)
    assert workspace.run(*ROWS).outcomes == dict.fromkeys(ROWS, "pass")


def test_what_differs_from_the_declaration_is_refused(workspace: Workspace, environments: Any, tmp_path: Path) -> None:
    for name in ("clang", "flang", "codegen", "circt", "icarus"):
        environments.require(name)
    for workload, (sources, _) in WRONG.items():
        folder = tmp_path / "matrix" / "workloads" / workload
        folder.mkdir(parents=True)
        reference = "def reference(x):\n    return 2 * x.astype('i4')\n"
        for file, text in {**sources, "workload.yaml": WORKLOAD, "reference.py": reference}.items():
            (folder / file).write_text(text)
    expected = {test: said for _, tests in WRONG.values() for test, said in tests.items()}
    report = workspace.run(*expected, catalog=tmp_path, code=1)
    assert report.outcomes == {test: outcome for test, (outcome, _) in expected.items()}
    for test, (_, reason) in expected.items():
        assert reason in report.tests[test].get("reason", ""), test
