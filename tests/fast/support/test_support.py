"""What works where: answers of tests, and of the operators in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.errors import UsageError
from mlir_matrix.results.results import TestResult
from mlir_matrix.support.support import operators, report, select_operators

TORCH = """\
module {
  func.func @main(%arg0: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
    %int1 = torch.constant.int 1
    %0 = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
    %values, %indices = torch.aten.sort %arg0, %int1 : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
    %1 = torch.operator "onnx.Gemm"(%values) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
    %2 = "torch.operator"(%1) <{name = "onnx.TopK"}> : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
    return %2 : !torch.vtensor<[2],f32>
  }
}
"""
HLO = """\
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0:2 = "stablehlo.sort"(%arg0, %arg1) ({
    ^bb0(%a: tensor<f32>):
      stablehlo.return %a : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = linalg.generic {indexing_maps = []} ins(%0 : tensor<2xf32>) {
      %2 = arith.addf %in, %out : f32
      linalg.yield %2 : f32
    } -> tensor<2xf32>
    scf.for %i = %c0 to %c1 step %c1 {
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TORCH, {"torch.aten.sort", "onnx.Gemm", "onnx.TopK"}),
        (HLO, {"stablehlo.sort", "linalg.generic", "arith.addf", "scf.for"}),
        ("int main(void) { return 0; }\n", set()),
        ("define void @main(ptr %0) {\n  %2 = load float, ptr %0\n}\n", set()),
    ],
)
def test_operators_of_a_text(text: str, expected: set[str]) -> None:
    assert operators(text) == expected


def test_operators_by_name() -> None:
    found = ["torch.aten.sort", "torch.aten.mm", "onnx.TopK"]
    assert select_operators(["sort"], found) == {"torch.aten.sort"}
    assert select_operators(["aten.*", "onnx.TopK"], found) == set(found)
    with pytest.raises(UsageError, match=r"--operator aten\.srt: .*did you mean 'aten\.sort'\?"):
        select_operators(["aten.srt"], found)


def result(workload: str, outcome: str, stage: str = "judge", *, cell: str = "f/p/t", **more: Any) -> TestResult:
    framework, pipeline, target = cell.split("/")
    expected = more.pop("expected", outcome == "pass")
    return TestResult(
        id=f"{cell}/{workload}", framework=framework, pipeline=pipeline, target=target, workload=workload,
        outcome=Outcome(outcome), stage=Stage(stage), expected=expected, **{"reason": "because", **more},
    )  # fmt: skip


EXPECTED: Any = {"outcome": "lower-failed", "reason": "No lowering.", "position": "suite.yaml:3:5"}


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (result("a", "pass"), {"answer": "yes", "reason": ""}),
        (result("a", "pass", weak={"y": ["zeros"]}), {"answer": "weak"}),
        (result("a", "pass", compile_only=True), {"answer": "compiles", "reason": ""}),
        (result("a", "mismatch"), {"answer": "wrong", "expected": False, "reason": "because"}),
        (result("a", "crashed", "codegen", reason="SIGSEGV"), {"answer": "fails", "reason": "crashed: SIGSEGV"}),
        (
            result("a", "lower-failed", "lower", expected=True, expectation=EXPECTED),
            {"answer": "fails", "stage": "lower", "reason": "No lowering.", "position": "suite.yaml:3:5"},
        ),
        (result("a", "infra-error", "run"), {"answer": "not run"}),
        (result("a", "unsupported", expected=True), {"answer": "cannot", "reason": "because"}),
    ],
)
def test_the_answer_of_a_test(given: TestResult, answer: Mapping[str, Any]) -> None:
    document = report([given])
    (entry,) = document["entries"]
    assert answer.items() <= entry.items()
    assert document["summary"]["answers"] == {entry["answer"]: 1}


def by_operator(contained: Mapping[str, set[str]], *results: TestResult) -> dict[str, Any]:
    sets = {f"f/p/t/{name}": frozenset(names) for name, names in contained.items()}
    return {entry["name"]: entry for entry in report(results, contained=sets)["entries"]}


def test_an_operator_works_where_one_test_with_it_passes() -> None:
    found = by_operator(
        {"mlp": {"d.mm", "d.relu"}, "odd": {"d.mm", "d.topk"}}, result("mlp", "pass"), result("odd", "mismatch")
    )
    assert {name: (each["answer"], each["test"], each["tests"]) for name, each in found.items()} == {
        "d.mm": ("yes", "f/p/t/mlp", 2), "d.relu": ("yes", "f/p/t/mlp", 1), "d.topk": ("wrong", "f/p/t/odd", 1),
    }  # fmt: skip
    assert "fails_in" not in found["d.mm"], "the mismatch may be another operator's"


def test_an_error_blames_the_operator_that_it_names() -> None:
    failed = result(
        "odd", "lower-failed", "lower", reason="the passes failed", diagnostics="x: error: failed to legalize operation 'd.topk'\n"
    )  # fmt: skip
    found = by_operator({"odd": {"d.mm", "d.topk"}}, failed)
    assert (found["d.topk"]["answer"], found["d.topk"]["stage"]) == ("fails", "lower")
    assert (found["d.mm"]["answer"], found["d.mm"]["reason"]) == (
        "unknown", "each test that contains it fails at another operator: d.topk",
    )  # fmt: skip
    assert "stage" not in found["d.mm"]
    again = by_operator({"odd": {"d.mm", "d.topk"}, "good": {"d.topk"}}, failed, result("good", "pass"))
    assert again["d.topk"]["answer"] == "yes"
    assert [each["test"] for each in again["d.topk"]["fails_in"]] == ["f/p/t/odd"]


def test_the_furthest_failure_counts() -> None:
    found = by_operator(
        {"a": {"d.x"}, "b": {"d.x"}}, result("a", "lower-failed", "lower"), result("b", "run-failed", "run")
    )
    assert (found["d.x"]["stage"], found["d.x"]["test"]) == ("run", "f/p/t/b")


def test_what_a_path_does_not_take_is_known_from_another_path() -> None:
    taken, refused = result("a", "pass"), result("a", "unsupported", cell="f/other/t", expected=True)
    entries = report([taken, refused], contained={"f/p/t/a": frozenset({"d.x"})})["entries"]
    assert [(entry["pipeline"], entry["answer"]) for entry in entries] == [("p", "yes"), ("other", "cannot")]
