"""Programs that check their own results, in the forms of StableHLO's testdata, of StableHLO's interpreter and of IREE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.downstream import Downstream
from support.workspace import Workspace

TESTDATA = """\
module @jit_main {
  func.func public @main() -> (tensor<2xTYPE> {jax.result_info = ""}) {
    %0:2 = call @inputs() : () -> (tensor<2xTYPE>, tensor<2xTYPE>)
    %1 = call @expected() : () -> tensor<2xTYPE>
    %2 = call @sum(%0#0, %0#1) : (tensor<2xTYPE>, tensor<2xTYPE>) -> tensor<2xTYPE>
    stablehlo.custom_call @check.CHECK(%2, %1) {has_side_effect = true} : (tensor<2xTYPE>, tensor<2xTYPE>) -> ()
    return %2 : tensor<2xTYPE>
  }
  func.func private @inputs() -> (tensor<2xTYPE>, tensor<2xTYPE>) {
    %a = stablehlo.constant dense<FIRST> : tensor<2xTYPE>
    %b = stablehlo.constant dense<SECOND> : tensor<2xTYPE>
    return %a, %b : tensor<2xTYPE>, tensor<2xTYPE>
  }
  func.func private @sum(%a: tensor<2xTYPE>, %b: tensor<2xTYPE>) -> tensor<2xTYPE> {
    %c = stablehlo.add %a, %b : tensor<2xTYPE>
    return %c : tensor<2xTYPE>
  }
  func.func private @expected() -> tensor<2xTYPE> {
    %c = stablehlo.constant dense<THIRD> : tensor<2xTYPE>
    return %c : tensor<2xTYPE>
  }
}
"""
#: StableHLO's own form, split, with a function that is called; and IREE's, with what it does not fold.
INTERPRETED = """\
func.func @adds() {
  %a = stablehlo.constant dense<[1, 250]> : tensor<2xui8>
  %c = stablehlo.add %a, %a : tensor<2xui8>
  check.expect_eq_const %c, dense<[2, 244]> : tensor<2xui8>
  func.return
}

// func.func @rotates() has no part of its own here.
// -----

func.func @rotates() {
  %a = stablehlo.constant dense<(3.0, 4.0)> : tensor<complex<f64>>
  %r = "stablehlo.abs"(%a) : (tensor<complex<f64>>) -> tensor<f64>
  check.expect_almost_eq_const %r, dense<5.00005> : tensor<f64>
  func.return
}

func.func @repeated() {
  func.return
}

// -----

func.func @repeated() {
  func.return
}
"""
TOSA = """\
func.func @floors() {
  %0 = util.unfoldable_constant dense<[0.5, -1.5,
                                       2.0]> : tensor<3xf32>
  %r = tosa.floor %0 : (tensor<3xf32>) -> tensor<3xf32>
  check.expect_almost_eq_const(
      %r, dense<[0.0, -2.0, 2.0]> : tensor<3xf32>
  ) : tensor<3xf32>
  return
}
func.func @nothing() {
  return
}
func.func @half() {
  %0 = util.unfoldable_constant dense<[0.5, -1.5
"""


def _testdata(kind: str, check: str, *values: str) -> str:
    text = TESTDATA.replace("TYPE", kind).replace("CHECK", check)
    for word, value in zip(("FIRST", "SECOND", "THIRD"), values, strict=True):
        text = text.replace(word, value)
    return text


FILES = {
    "complex": _testdata(
        "complex<f32>", "expect_close", "[(1.0,2.0), (0.5,0.0)]", "(1.0,1.0)", "[(2.0,3.0), (1.5,1.0)]"
    ),
    "hexadecimal": _testdata("bf16", "expect_eq", '"0x803F0040"', "0x3F80", "[2.0, 3.0]"),
    # Three units in the last place are right, and four are not.
    "near": _testdata("f32", "expect_close", "[1.0, 2.0]", "1.0", "[2.00000072, 3.0]"),
    "far": _testdata("f32", "expect_close", "[1.0, 2.0]", "1.0", "[2.00000095, 3.0]"),
    "short": _testdata("f32", "expect_eq", '"0x0000803F00"', "1.0", "1.0"),
    "four_bits": _testdata("i4", "expect_eq", "1", "1", "2"),
    "unexpected": _testdata("f32", "expect_eq", "1.0", "1.0", "2.0").replace("private @expected", "private @others"),
    "half": TESTDATA[:500],
}
#: Of each test its outcome, and what its reason has in it.
WANTED = {
    "data:complex": ("pass", "all 2 elements are right"),
    "data:hexadecimal": ("pass", "all 2 elements are right"),
    "data:near": ("pass", "all 2 elements are right"),
    "data:far": ("mismatch", "given by the test: expect_close, 3 units in the last place"),
    "data:short": ("import-failed", "the file does not parse: elements hex data size is invalid for provided type"),
    "data:four_bits": ("import-failed", "an input is of i4, which is no dtype here"),
    "data:unexpected": (
        "import-failed",
        "the file does not parse: 'func.call' op 'expected' does not reference a valid function",
    ),
    "data:half": ("import-failed", "the file does not parse: "),
    "interpreted:file.adds": ("pass", "all 2 elements are right"),
    "interpreted:file.rotates": ("pass", "all 1 elements are right"),
    "interpreted:file.repeated": ("import-failed", "the file has several functions @repeated, at lines 18 and 24;"),
}
WANTED_TOSA = {
    "iree:whole.floors": ("pass", "all 3 elements are right"),
    "iree:whole.nothing": ("import-failed", "the function checks nothing, so nothing is expected"),
    "iree:half.floors": ("import-failed", "the file does not parse: "),
}


def test_outcomes_and_reasons(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "catalog")
    for name, source in (("data", "stablehlo-testdata"), ("interpreted", "check-stablehlo"), ("iree", "check-tosa")):
        catalog.write(f"matrix/corpora/{name}/corpus.yaml", f"description: x\nsource: {source}\nfolder: {name}\n")
    for name, text in FILES.items():
        catalog.write(f"data/{name}.mlir", text)
    catalog.write("interpreted/file.mlir", INTERPRETED)
    whole, begin, _ = TOSA.partition("func.func @half")
    catalog.write("iree/whole.mlir", whole)
    catalog.write("iree/half.mlir", whole + begin)
    cells = {"stablehlo/xla-cpu/xla-cpu": WANTED, "tosa/tosa-loops/x86_64": WANTED_TOSA}
    chosen = [f"{cell}/{name}" for cell, wanted in cells.items() for name in wanted]
    done = fresh("home").run(*chosen, code=1, catalog=catalog.root)
    done.check({f"{cell}/{name}": each for cell, tests in cells.items() for name, each in tests.items()})
