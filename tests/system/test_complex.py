"""Complex numbers, and a program without inputs, through the whole chain: inputs, import, kernels, judge, audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from support.downstream import Downstream
from support.workspace import Workspace

ROTATED = """\
description: Complex numbers times others.
golden: computed
inputs:
  a: {shape: [4, 8], dtype: c64, formula: "uniform(-1, 1)"}
  b: {shape: [4, 8], dtype: c64, formula: "uniform(-1, 1)", seed: 1}
outputs:
  y: {shape: [4, 8], dtype: c64}
  r: {shape: [4, 8], dtype: f32}
"""
#: A product of complex numbers is exact to sqrt(5) u, and one more for the sum of four terms that a subtraction may leave.
REFERENCE = """\
import numpy as np

def reference(a, b):
    return a * b, (a * b).real

def forward_error(u, a, b):
    bound = 4 * u * np.abs(a * b)
    return bound, bound
"""
STABLEHLO = """\
func.func @main(%a: tensor<4x8xcomplex<f32>>, %b: tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>, tensor<4x8xf32>) {
  %y = stablehlo.multiply %a, %b : tensor<4x8xcomplex<f32>>
  %r = stablehlo.real %y : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
  return %y, %r : tensor<4x8xcomplex<f32>>, tensor<4x8xf32>
}
"""
CONSTANT = """\
description: No inputs.
golden: computed
inputs: {}
outputs:
  y: {shape: [3], dtype: f32}
"""
MAIN = "func.func @main() -> tensor<3xf32> {\n  %y = stablehlo.iota dim = 0 : tensor<3xf32>\n  return %y : tensor<3xf32>\n}\n"
CELLS = "stablehlo/stablehlo-loops/x86_64", "stablehlo/xla-cpu/xla-cpu"


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "catalog")
    for name, document, reference, program in (
        ("rotated", ROTATED, REFERENCE, STABLEHLO),
        ("conjugate", ROTATED, REFERENCE.replace("a * b,", "np.conj(a * b),"), STABLEHLO),
        ("constant", CONSTANT, "import numpy as np\n\ndef reference():\n    return np.arange(3.0)\n", MAIN),
    ):
        made.write(f"matrix/workloads/{name}/workload.yaml", document)
        made.write(f"matrix/workloads/{name}/reference.py", reference)
        made.write(f"matrix/workloads/{name}/stablehlo.mlir", program)
    return made


def test_complex_numbers_and_no_inputs(fresh: Callable[[str], Workspace], catalog: Downstream, tmp_path: Path) -> None:
    workspace = fresh("home")
    tests = [f"{cell}/{name}" for cell in CELLS for name in ("rotated", "constant")]
    wrong = f"{CELLS[0]}/conjugate"
    done = workspace.run(*tests, wrong, code=1, catalog=catalog.root)
    assert done.outcomes == {**dict.fromkeys(tests, "pass"), wrong: "mismatch"}
    assert done.tests[wrong]["reason"].startswith("y: 32 of 32 elements (100 %) are wrong")

    audited = workspace("golden", "audit", "--seeds", "2", "--catalog", str(catalog.root), tests[0])
    assert audited.code == 0, audited.stdout
    for name, line in (("rotated", "c64  4x8"), ("constant", "constant has no inputs")):
        listed = workspace("inputs", name, "--catalog", str(catalog.root), "--out", str(tmp_path / name))
        assert line in listed.stdout
    array = numpy.load(tmp_path / "rotated" / "a.npy")
    assert array.dtype == numpy.complex64
    assert not numpy.isin(array.real, array.imag).any()
