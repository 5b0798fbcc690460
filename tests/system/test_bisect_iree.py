"""Bisections of a whole compiler, by a catalog of somebody else; and a framework whose API a tool does not know."""

from __future__ import annotations

import re
from pathlib import Path

from support.downstream import Downstream
from support.reports import reproduce
from support.workspace import REPOSITORY, Workspace

#: IREE 3.13 takes another spelling.
ELEMENTWISE = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %y = linalg.elementwise kind=#linalg.elementwise_kind<add> ins(%x, %x : tensor<4xf32>, tensor<4xf32>)
      outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
JAX = "def workload(x):\n    return x + x\n"
#: A convolution in a portable artifact. IREE 3.10 lowers it to an operation that it rejects.
CONVOLUTION = {
    "matrix/workloads/conv/workload.yaml": """\
description: A convolution.
inputs:
  x: {shape: [1, 3, 16, 16], dtype: f32, formula: "normal(0, 1)", seed: 1}
  w: {shape: [8, 3, 3, 3], dtype: f32, formula: "normal(0, 1)", seed: 2}
outputs:
  y: {shape: [1, 8, 16, 16], dtype: f32}
golden: computed
""",
    "matrix/workloads/conv/reference.py": """\
import numpy


def reference(x, w):
    padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    shifted = [(i, j, padded[:, :, i : i + 16, j : j + 16]) for i in range(3) for j in range(3)]
    return sum(numpy.einsum("ncij,fc->nfij", part, w[:, :, i, j]) for i, j, part in shifted)
""",
    "matrix/workloads/conv/jax.py": """\
from jax import lax


def workload(x, w):
    return lax.conv(x, w, (1, 1), "SAME")
""",
    "matrix/frameworks/jax-export/framework.yaml": """\
description: JAX functions, as jax.export serialises them.
environment: jax
emits: {vhlo: jax.py}
""",
    "matrix/frameworks/jax-export/importer.py": """\
from pathlib import Path

import jax
from jax import export

from mlir_matrix.actions import api


def run(action):
    jax.config.update("jax_platforms", "cpu")
    source = jax.jit(api.load(action.inputs["source"]), keep_unused=True)
    arguments = [jax.ShapeDtypeStruct(tuple(each["shape"]), "float32") for each in action.params["inputs"]]
    exported = export.export(source, platforms=["cpu"])(*arguments)
    Path(action.outputs["out"]).write_bytes(exported.mlir_module_serialized)
""",
    "recipes/kinds/vhlo.yaml": "description: StableHLO as a portable artifact.\nfile: vhlo.mlirbc\n",
    "recipes/pipelines/iree-vhlo.yaml": """\
description: IREE's compiler on portable artifacts.
entry: {vhlo: []}
steps: [iree-vhlo]
""",
    "recipes/steps/iree-vhlo/step.yaml": """\
description: IREE's compiler, to code for the CPU by LLVM.
environment: iree
accepts: [vhlo]
gives: vmfb
stage: codegen
command: [iree-compile, --iree-hal-target-backends=llvm-cpu, "--iree-llvmcpu-target-cpu=x86-64-v3", "${ir}", -o, "${out}"]
""",
}


def test_a_rejected_program_and_a_tool_that_fails(workspace: Workspace, tmp_path: Path) -> None:
    """The release that rejects a program is found, with a command that shows it; of a tool that fails nothing is concluded."""
    catalog = Downstream(tmp_path / "catalog")
    catalog.workload("doubled", linalg=ELEMENTWISE, jax=JAX)
    framework = (REPOSITORY / "matrix/frameworks/jax/framework.yaml").read_text()
    importer = (REPOSITORY / "matrix/frameworks/jax/importer.py").read_text()
    catalog.write("matrix/frameworks/jax-old/framework.yaml", framework)
    # The API up to JAX 0.5.
    assert 'getattr(each, "name", each)' in importer
    old = importer.replace('getattr(each, "name", each)', "each.name")
    catalog.write("matrix/frameworks/jax-old/importer.py", old)
    tests = [f"{framework}/iree-llvm-cpu/iree-local/doubled" for framework in ("mlir", "jax-old")]
    ends = ("--good", "3.12", "--bad", "3.13", "--scan")
    done = workspace("bisect", *tests, *ends, "--catalog", catalog.root, "--format", "json", "--quiet")
    assert done.code == 3, done.stderr
    found = {test["id"]: test for test in done.document["tests"]}
    rejected, untold = (found[test] for test in tests)

    (change,) = rejected["changes"]
    assert (change["kind"], change["candidates"], change["step"]) == ("broke", ["3.13.0"], None)
    assert [each["outcome"] for each in rejected["behaviours"]] == ["pass", "codegen-failed"]
    assert (
        "at iree-llvm-cpu, iree-compile fails with exit code …: expected '<'"
        in rejected["behaviours"][1]["description"]
    )
    report = Path(rejected["report"])
    assert "All steps before iree-llvm-cpu give the same." in report.read_text()
    title = "# iree-llvm-cpu: iree-compile fails with exit code 1: expected '\\<': broke in iree 3.13.0\n"
    assert report.read_text().startswith(title)
    refused = reproduce(report, workspace, ["iree-compile@3.13"], tmp_path / "bad")
    assert refused.returncode == 1
    assert "error: expected '<'" in refused.stderr
    # The steps after the one that failed prove nothing.
    assert "With iree 3.12.0, all of these commands succeed." in report.read_text()
    passed = reproduce(report, workspace, ["iree-compile@3.12"], tmp_path / "good")
    assert passed.returncode == 0, passed.stderr

    assert (untold["changes"], untold["behaviours"]) == ([], [])
    assert {point["outcome"] for point in untold["points"]} == {"infra-error"}
    assert "raised AttributeError: 'str' object has no attribute 'name'" in Path(untold["report"]).read_text()


def test_pins_of_a_compiler_and_its_framework(workspace: Workspace, tmp_path: Path) -> None:
    """JAX, IREE and LLVM have moved: one is guilty, one plays no part, and JAX's two parts cannot move alone."""
    catalog = Downstream(tmp_path / "catalog")
    for path, text in CONVOLUTION.items():
        catalog.write(path, text)
    done = workspace(
        "bisect", "jax-export/iree-vhlo/iree-local/conv", "--catalog", catalog.root, "--format", "json", "--quiet",
        "--good", "iree=3.9,jax=0.9.2,jaxlib=0.9.2,llvm=21", "--bad", "iree=3.10,jax=0.10.2,jaxlib=0.10.2,llvm=22",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert "the pins of llvm have no effect, because nothing there uses them" in done.stderr
    pins, releases = done.document["tests"]
    (change,) = pins["changes"]
    assert (change["kind"], change["after"]) == ("broke", "iree 3.9.0 → 3.10.0")
    known = {point["release"]: point["behaviour"] for point in pins["points"]}
    assert known["jax 0.9.2 → 0.10.2"] is None
    assert known["jax 0.9.2 → 0.10.2, jaxlib 0.9.2 → 0.10.2"] == known["no pin moved"] == "A"
    (change,) = releases["changes"]
    assert (change["kind"], change["candidates"]) == ("broke", ["3.10.0"])
    report = Path(releases["report"])
    assert "--pin jax=0.9.2 --pin jaxlib=0.9.2" in report.read_text()
    # What JAX serialised is in the folder of the report.
    assert re.search(r"^`\d\d-vhlo\.mlirbc`: \d+ bytes, beside this report$", report.read_text(), re.MULTILINE)
    refused = reproduce(report, workspace, ["iree-compile@3.10"], tmp_path / "bad")
    assert refused.returncode == 1
    assert "op attribute 'strides' failed to satisfy constraint" in refused.stderr
    passed = reproduce(report, workspace, ["iree-compile@3.9"], tmp_path / "good")
    assert passed.returncode == 0, passed.stderr
