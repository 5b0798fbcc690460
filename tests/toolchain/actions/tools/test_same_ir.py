"""IR that is the same whatever its values are called, by bindings and by programs; and differences that people can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.tools import same_ir

ONE = """
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
RENAMED = """
func.func @main(%first: tensor<4xf32> loc("elsewhere":1:2), %second: tensor<4xf32>) -> tensor<4xf32> {
  %sum = "arith.addf"(%first, %second) <{fastmath = #arith.fastmath<none>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %sum : tensor<4xf32>
}
"""
SWAPPED = ONE.replace("%a, %b", "%b, %a")
FLAGGED = ONE.replace("%a, %b", "%a, %b fastmath<contract>")


@pytest.fixture(params=["bindings", "programs"])
def compare(request: Any, environments: Any, tmp_path: Path) -> Any:
    """By the default environment's bindings, and by the programs of a release."""
    environment = "mlir" if request.param == "bindings" else "mlir@llvm=19.1.7"

    def perform(ir: str, other: str, *, same: bool = False) -> Any:
        return environments.perform(
            environment, "same_ir", tmp_path / "action", stage="judge",
            params={"relation": "it holds", "other": "the other", "same": same, "backend": request.param},
            inputs={"ir": ir, "other": other}, outputs={"verdict": "verdict.json"},
        )  # fmt: skip

    return perform


def test_names_and_places_do_not_count(compare: Any) -> None:
    verdict = json.loads(compare(ONE, RENAMED).text("verdict"))
    assert (verdict["outcome"], verdict["metrics"]["operations"]) == ("pass", 4)
    assert verdict["reason"] == "it holds: all 4 operations are the same"


@pytest.mark.parametrize("other", [SWAPPED, FLAGGED])
def test_a_difference_is_shown(compare: Any, other: str) -> None:
    verdict = json.loads(compare(ONE, other).text("verdict"))
    assert verdict["outcome"] == "mismatch"
    assert "the IR differs in 2 lines" in verdict["reason"]
    removed, added = (line for line in verdict["diagnostics"].splitlines()[2:] if line[0] in "+-")
    assert removed.startswith("-")
    assert "arith.addf %arg0, %arg1 : tensor<4xf32>" in added


def test_what_does_not_parse_is_no_match(compare: Any) -> None:
    performed = compare(ONE, "func.func @main(")
    assert performed.outcome["outcome"] == "mismatch"


def test_one_and_the_same_output_proves_nothing() -> None:
    text = '"builtin.module"() ({\n  "func.func"() ({\n'
    found = same_ir.verdict("r", (text, text), (text, text), same=True)
    assert (found["outcome"], found["reason"]) == (
        "mismatch",
        "expected: r; found: both are the output of one and the same action",
    )


def test_an_empty_module_proves_nothing() -> None:
    text = '"builtin.module"() ({\n^bb0:\n}) : () -> ()\n'
    assert same_ir.verdict("r", (text, text), (text, text), same=False)["outcome"] == "mismatch"


def test_a_long_difference_is_cut() -> None:
    texts = tuple(
        '"builtin.module"()\n' + "".join(f'"a.b"({n})\n' for n in range(start, start + 200)) for start in (0, 500)
    )
    found = same_ir.verdict("r", (texts[0], texts[1]), (texts[0], texts[1]), same=False)
    assert len(found["diagnostics"].splitlines()) == 61
    assert found["diagnostics"].endswith(" more lines]\n")
