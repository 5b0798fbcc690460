"""An explanation names every rule, the road with the origin of each value, and what the caller adds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from catalogs import catalog

from mlir_matrix.errors import UsageError
from mlir_matrix.expand import everything, expand
from mlir_matrix.explain import Explanation, explain

SMOKE = (
    "blocks:\n"
    "- product: {framework: [pytorch, jax], target: [x86_64]}\n"
    "- product: {workload: [mlp]}\n"
    "steps: ['*']\n"
    "include: ['onnx/**']\n"
    "exclude: [{tests: ['**/softmax'], reason: slow}, {tests: ['jax/**/softmax'], reason: slower}]\n"
    "expect:\n"
    "- {tests: ['pytorch/*/x86_64/*'], outcome: mismatch, reason: known, link: 'x://y'}\n"
    "- {tests: ['pytorch/**/mlp'], outcome: mismatch, reason: known too}\n"
)
CATALOG = catalog({"smoke": SMOKE})


def of(identifier: str) -> Explanation:
    return explain(CATALOG, expand(CATALOG, CATALOG.suites["smoke"]), identifier)


def rules(found: dict[str, Any]) -> list[tuple[str, str, bool]]:
    return [
        (rule["kind"], rule["position"].removeprefix("suites/smoke.yaml:"), rule["wins"]) for rule in found["rules"]
    ]


def test_a_selected_test_lists_the_rules_that_decide_and_those_that_do_not() -> None:
    found = of("pytorch/linalg-tiled/x86_64/mlp").to_json()
    assert (found["selected"], found["outcome"], found["reason"]) == (True, None, "in by suites/smoke.yaml:3:3")
    assert rules(found) == [
        ("block", "3:3", True),
        ("block", "4:3", False),
        ("expect", "9:12", True),
        ("expect", "10:12", False),
    ]
    assert found["expectation"] == {
        "outcome": "mismatch",
        "reason": "known",
        "link": "x://y",
        "position": "suites/smoke.yaml:9:12",
    }


def test_an_excluded_test_lists_all_exclusions_and_the_rules_that_had_it_in() -> None:
    found = of("jax/linalg-loops/x86_64/softmax").to_json()
    assert (found["selected"], found["outcome"]) == (False, None)
    assert found["reason"] == "left out by suites/smoke.yaml:7:20: slow"
    assert rules(found) == [("block", "3:3", False), ("exclude", "7:20", True), ("exclude", "7:59", False)]
    assert found["road"] is None


def test_an_unsupported_test_says_why() -> None:
    text = of("onnx/linalg-loops/x86_64/topk").to_text()
    assert text.startswith(
        "onnx/linalg-loops/x86_64/topk: unsupported\n  onnx cannot express topk: its order is not defined\n"
    )
    assert "suites/smoke.yaml:6:11: include: onnx/** · puts it in" in text


def test_the_road_names_steps_values_and_origins() -> None:
    found = of("pytorch/linalg-tiled/x86_64/topk")
    road = found.to_json()["road"]
    assert (road["kind"], road["source"], road["ends"]) == ("torch", "pytorch.py", "object")
    assert [step["step"] for step in road["steps"]] == ["torch-to-linalg", "tile", "lower", "emit"]
    assert road["steps"][1]["parameters"][0] == {
        "name": "size",
        "value": 4,
        "position": "pipelines/linalg-tiled.yaml:7:12",
        "default": False,
    }
    text = found.to_text()
    assert "size = 4 (set at pipelines/linalg-tiled.yaml:7:12)" in text
    assert "unroll = True (default at steps/tile.yaml:6:" in text


def test_definitions_say_which_files_a_test_is_made_of() -> None:
    assert [row["kind"] for row in of("pytorch/linalg-tiled/x86_64/topk").to_json()["definitions"]] == [
        "framework",
        "pipeline",
        "target",
        "workload",
    ]
    (step,) = of("mlir/tile/ir/mm").to_json()["definitions"]
    assert step == {"kind": "step", "name": "tile", "position": "steps/tile.yaml:1:1"}


def test_what_the_caller_adds_is_shown() -> None:
    expansion = expand(CATALOG, CATALOG.suites["smoke"])
    found = explain(
        CATALOG,
        expansion,
        "mlir/tile/ir/mm",
        actions=[{"id": "a1", "kind": "check", "after": []}],
        environments=[{"name": "torch-mlir"}],
        tolerances=[{"position": "golden/tolerances.yaml:2:3"}],
    )
    text = found.to_text()
    assert "Actions\n  id: a1, kind: check\n" in text
    assert "Environments\n  name: torch-mlir\n" in text
    assert "Tolerances\n  position: golden/tolerances.yaml:2:3\n" in text
    assert found.to_json()["actions"] == [{"id": "a1", "kind": "check", "after": []}]


def test_outside_a_suite_the_default_suites_rules_are_told_too() -> None:
    found = explain(CATALOG, everything(CATALOG), "jax/linalg-loops/x86_64/softmax")
    assert found.test.selected
    assert [(row.rule.kind, row.suite) for row in found.rules] == [
        ("catalog", None),
        ("block", "smoke"),
        ("exclude", "smoke"),
        ("exclude", "smoke"),
    ]
    assert "exclude of suite smoke: **/softmax · leaves it out · slow" in found.to_text()


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("mlir/linalg-loops/gpu/topk", "no rule of suite smoke puts mlir/linalg-loops/gpu/topk in"),
        ("mlir/linalg-lops/gpu/topk", "there is no pipeline 'linalg-lops'; did you mean 'linalg-loops'?"),
        ("mlir", "'mlir' is not the identifier of a test"),
    ],
)
def test_what_is_no_test_of_the_suite_is_refused(identifier: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        of(identifier)
    assert message in str(caught.value)


@pytest.mark.parametrize("identifier", ["pytorch/linalg-tiled/x86_64/mlp", "jax/tosa-loops/gpu/mlp", "mlir/tile/ir/mm"])
def test_json_is_json(identifier: str) -> None:
    found = of(identifier).to_json()
    assert json.loads(json.dumps(found)) == found
