"""Bisections of a whole compiler, by a catalog of somebody else; and a framework whose API a tool does not know."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.downstream import Downstream
from support.house import REPOSITORY, House

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


def test_a_rejected_program_and_a_tool_that_fails(house: House, tmp_path: Path) -> None:
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
    done = house("bisect", *tests, *ends, "--catalog", catalog.root, "--format", "json", "--quiet")
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
    report = Path(rejected["report"]).read_text()
    assert "All steps before iree-llvm-cpu give the same." in report
    (line,) = rejected["commands"]["iree-llvm-cpu"]
    refused = repeated(line, report, house, tmp_path)
    assert refused.returncode == 1
    assert "error: expected '<'" in refused.stderr

    assert (untold["changes"], untold["behaviours"]) == ([], [])
    assert {point["outcome"] for point in untold["points"]} == {"infra-error"}
    assert "raised AttributeError: 'str' object has no attribute 'name'" in Path(untold["report"]).read_text()


def repeated(line: str, report: str, house: House, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a report, with the program of the newest release and the file that the report has."""
    name = next(word for word in line.split() if word.endswith(".mlir"))
    source = report.partition(f"`{name}`:")[2].partition("```mlir\n")[2].partition("```")[0]
    (folder / name).write_text(source)
    program = house("toolchain", "which", "iree-compile@3.13").stdout.strip()
    assert line.startswith("iree-compile ")
    return subprocess.run([program, *line.split()[1:]], cwd=folder, capture_output=True, text=True, check=False)
