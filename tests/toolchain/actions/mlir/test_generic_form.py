"""Hand-written IR through mlir-opt: the generic form is read the same way whatever release printed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

X = {"name": "x", "shape": [4, 8], "dtype": "f32", "dynamic": []}
PARAMS = {"inputs": [X], "outputs": [X], "backend": "programs"}


SOURCE = """// a remark
func.func private @other(tensor<2xf32>)
func.func @main(%x: tensor<4x8xf32>) -> tensor<?x8xf32> {
  %y = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
"""
#: What each release prints differently, around a @main and in it.
AROUND = """
func.func @other() attributes {my.sym_name = "main", my.d = {sym_name = "main"}} { return }
module @inner { func.func private @main(i1) }
func.func private @"ma\\22in"(tensor<3xf32>)
"""
ODD = """
func.func @main(%x: tensor<4x8xf32> {my.doc = "}) {function_type = ("}) -> tensor<4x8xf32>
    attributes {my.sym_name = "other", my.a = {function_type = (i1) -> ()}, "sym_name x" = "no", my.f} {
  return %x : tensor<4x8xf32>
}
"""
#: Instead of a @main that is a function.
NO_FUNCTION = ("llvm.func @main()", "module @main { func.func @main() { return } }")


@pytest.mark.parametrize("release", ["15", "16", "17", "22", "24"])
def test_whatever_a_release_prints_around_it(environments: Any, tmp_path: Path, release: str) -> None:
    count = iter(range(10))

    def take(source: str) -> Any:
        return environments.perform(
            f"mlir@llvm={release}", "matrix/frameworks/mlir/importer.py", tmp_path / str(next(count)), params=PARAMS,
            inputs={"source": source}, outputs={"out": "ir.mlir"}, stage="import",
        ).outcome  # fmt: skip

    for source in (AROUND + ODD, ODD + AROUND):
        assert take(source)["outcome"] == "ok", take(source)
    for other in (AROUND, *(AROUND + each for each in NO_FUNCTION)):
        assert take(other)["reason"] == "the file has no func.func @main"


@pytest.mark.parametrize("release", ["15", "16", "22"])
def test_by_real_releases(environments: Any, tmp_path: Path, release: str) -> None:
    """Taken, refused, and not parsed: the same in each."""

    def take(name: str, source: str) -> Any:
        return environments.perform(
            f"mlir@llvm={release}", "matrix/frameworks/mlir/importer.py", tmp_path / name, params=PARAMS,
            inputs={"source": source}, outputs={"out": "ir.mlir"}, stage="import",
        )  # fmt: skip

    done = take("good", SOURCE)
    assert done.ok, done.outcome
    assert "func.func @main(%arg0: tensor<4x8xf32>) -> tensor<?x8xf32>" in done.text("out")
    assert "remark" not in done.text("out")
    refused = take("other", SOURCE.replace("8xf32", "9xf32")).outcome
    assert refused["outcome"] == "import-failed"
    assert refused["reason"] == (
        "@main is not what the workload declares: input x must be tensor<4x8xf32>, it is tensor<4x9xf32>"
    )
    assert take("none", "func.func @other() { return }").outcome["reason"] == "the file has no func.func @main"
    broken = take("broken", SOURCE.replace("return", "retrun")).outcome
    assert broken["outcome"] == "import-failed"
    assert broken["reason"].startswith("the file does not parse: ")
    assert str(tmp_path) not in broken["diagnostics"]
