"""An explanation names every rule, the route with the origin of each value, and what the caller adds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.suite import everything, expand
from mlir_matrix.explain import documents
from mlir_matrix.explain.explanation import Explanation, explain
from support.catalogs import catalog

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


def rules(found: documents.TestExplanation) -> list[tuple[str, str, bool]]:
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
    assert found["route"] is None


def test_an_unsupported_test_says_why() -> None:
    text = of("onnx/linalg-loops/x86_64/topk").to_text()
    assert text.startswith(
        "onnx/linalg-loops/x86_64/topk: unsupported\n  onnx cannot express topk: its order is not defined\n"
    )
    assert "suites/smoke.yaml:6:11: include: onnx/** · puts it in" in text


def test_the_route_names_steps_values_and_origins() -> None:
    found = of("pytorch/linalg-tiled/x86_64/topk")
    route = found.to_json()["route"]
    assert (route["kind"], route["source"], route["ends"]) == ("torch", "pytorch.py", "object")
    assert [step["step"] for step in route["steps"]] == ["torch-to-linalg", "tile", "lower", "emit"]
    assert route["steps"][1]["parameters"][0] == {
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
    actions: Any = [
        {"id": "a1", "kind": "passes", "environment": "e", "params": {}},
        {"id": "a2", "kind": "command", "environment": "e", "params": {"command": ["iree"], "devices": ["gpu", "kvm"]}},
        {"id": "a3", "kind": "python_file", "environment": "e", "params": {"tool": "a.py"}, "scaled": "n from 2 to 1"},
    ]
    environments: Any = [
        {"name": "e", "pins": {"llvm": "19.1.7"}, "digest": "0123456789abcdef01", "bound": ["/dev/null", "/own"]},
        {"name": "f", "pins": {}, "interpreter": "cpython 3.11", "bound": ["/dev/null"]},
    ]
    tolerances: Any = [
        {"output": "y", "layer": "t.yaml:2:3", "why": "applies", "atol": 0.5, "rtol": 0, "rationale": "Because."},
        {"output": "y", "layer": "t.yaml:9:3", "why": "other dtype"},
    ]
    found = replace(of("mlir/tile/ir/mm"), actions=actions, environments=environments, tolerances=tolerances)
    assert found.to_text().partition("\nActions")[2] == (
        "\n"
        "  a1: passes in e\n"
        "  a2: iree in e, with gpu and kvm if granted\n"
        "  a3: a.py in e, scaled: n from 2 to 1\n"
        "\nEnvironments\n"
        "  e: llvm 19.1.7; digest 0123456789abcdef\n    reads /own\n"
        "  f: cpython 3.11\n"
        "  all of them: the machine's files\n    reads /dev/null\n"
        "\nTolerances\n"
        "  y: t.yaml:2:3 applies: atol 0.5, rtol 0\n    Because.\n"
        "  y: t.yaml:9:3 other dtype\n"
    )
    assert found.to_json()["actions"] == actions


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


VARIED = catalog(
    {
        "smoke": (
            "blocks:\n"
            "- product: {framework: [pytorch], target: [x86_64]}\n"
            "  pins: {llvm: ['17', '18', '22']}\n"
            "- product: {framework: [pytorch]}\n"
            "exclude: [{tests: ['**/softmax@llvm=18'], reason: slow}]\n"
            "expect:\n"
            "- {tests: ['pytorch/*/x86_64/mlp@llvm=22'], outcome: mismatch, reason: known}\n"
        )
    }
)


def varied(identifier: str) -> Explanation:
    return explain(VARIED, expand(VARIED, VARIED.suites["smoke"]), identifier)


def test_rules_about_pins_hold_only_tests_with_these() -> None:
    assert rules(varied("pytorch/linalg-loops/x86_64/mlp@llvm=22").to_json()) == [
        ("block", "3:3", True),
        ("expect", "8:12", True),
    ]
    assert rules(varied("pytorch/linalg-loops/x86_64/mlp").to_json()) == [("block", "5:3", True)]
    assert rules(varied("pytorch/linalg-loops/x86_64/softmax@llvm=18").to_json()) == [
        ("block", "3:3", False),
        ("exclude", "6:20", True),
    ]


def test_the_route_names_the_variant_and_what_made_it_the_one() -> None:
    found = varied("pytorch/linalg-tiled/x86_64/mlp@llvm=18")
    (step,) = [step for step in found.to_json()["route"]["steps"] if step["step"] == "tile"]
    assert (step["tool"], step["backend"], step["environment"], step["pins"], step["variant"]) == (
        "passes", "programs", "e@llvm=18.1.8", {"llvm": "18.1.8"}, "steps/tile.yaml:9:3",
    )  # fmt: skip
    assert "    variant steps/tile.yaml:9:3, because llvm is 18.1.8\n" in found.to_text()
    plain = varied("pytorch/linalg-loops/x86_64/mlp@llvm=18")
    assert "variant" not in plain.to_text()
    assert {step["variant"] for step in plain.to_json()["route"]["steps"]} == {None}


@pytest.mark.parametrize(
    ("pins", "lines", "resolved_step"),
    [
        ({}, "Step: tile by passes in e\n  variant steps/tile.yaml:8:3, because llvm is 19.1.7\n"
            "  passes new\n", {
            "tool": "passes", "backend": "bindings", "environment": "e", "pins": {"llvm": "19.1.7"},
            "variant": "steps/tile.yaml:8:3", "because": "llvm is 19.1.7",
        }),
        ({"llvm": "18.1.8"}, "Step: tile by passes (programs) in e@llvm=18.1.8\n"
            "  variant steps/tile.yaml:9:3, because llvm is 18.1.8\n  passes old\n", {
            "tool": "passes", "backend": "programs", "environment": "e@llvm=18.1.8", "pins": {"llvm": "18.1.8"},
            "variant": "steps/tile.yaml:9:3", "because": "llvm is 18.1.8",
        }),
    ],
)  # fmt: skip
def test_an_ir_test_names_the_tool_and_the_variant_of_its_step(
    pins: dict[str, str], lines: str, resolved_step: dict[str, Any]
) -> None:
    found = explain(CATALOG, expand(CATALOG, CATALOG.suites["smoke"], Pins(CATALOG, pins)), "mlir/tile/ir/mm")
    assert f"\n\n{lines}\nDefined in" in found.to_text()
    assert (found.to_json()["recipe"], found.to_json()["route"]) == (resolved_step, None)


def test_an_ir_test_of_a_step_without_variants() -> None:
    found = of("mlir/torch-to-linalg/ir/mm")
    assert "\nStep: torch-to-linalg by passes in e\n\n" in found.to_text()
    resolved_step = found.to_json()["recipe"]
    assert (resolved_step["variant"], resolved_step["because"]) == (None, None)


def test_the_route_in_json_has_all_that_runs() -> None:
    found = varied("pytorch/linalg-tiled/x86_64/mlp@llvm=18").to_json()
    assert (found["route"]["linker"], found["route"]["runner"], found["recipe"]) == ("zig", "python", None)
    assert found["route"]["ingress"] == {
        "tool": "python_file", "backend": "programs", "environment": "e@llvm=18.1.8", "pins": {"llvm": "18.1.8"},
        "variant": None, "because": None,
    }  # fmt: skip
    assert [step["because"] for step in found["route"]["steps"]] == [None, "llvm is 18.1.8", None, None]


def test_a_test_is_found_however_its_pins_are_spelled() -> None:
    assert varied("pytorch/linalg-loops/x86_64/mlp@llvm=22.1.8").test.id == "pytorch/linalg-loops/x86_64/mlp@llvm=22"


def test_a_release_without_a_variant_says_so() -> None:
    assert (
        varied("pytorch/linalg-tiled/x86_64/mlp@llvm=17")
        .to_text()
        .startswith(
            "pytorch/linalg-tiled/x86_64/mlp@llvm=17: unsupported\n"
            "  step tile has no variant for llvm 17.0.6; it has variants for llvm >=19; llvm 18"
        )
    )


def test_code_generation_is_on_the_route() -> None:
    route = varied("pytorch/linalg-tiled/x86_64/mlp@llvm=18").to_json()["route"]
    assert route["steps"][-1]["position"] == "targets/x86_64.yaml:5:11"
    assert route["steps"][-1]["parameters"] == [
        {"name": "opt-level", "value": 3, "position": "pipelines/linalg-tiled.yaml:9:11", "default": False}
    ]


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("pytorch/linalg-loops/x86_64/mlp@llvm=19", "no rule of suite smoke puts pytorch/linalg-loops/x86_64/mlp@llvm=19 in"),
        ("pytorch/linalg-lops/x86_64/mlp@llvm=18", "there is no pipeline 'linalg-lops'; did you mean 'linalg-loops'?"),
        ("mlp@llvm=18", "'mlp@llvm=18' is not the identifier of a test"),
    ],
)  # fmt: skip
def test_pins_that_the_suite_does_not_have(identifier: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        varied(identifier)
    assert message in str(caught.value)


def test_no_suite_is_named_where_none_was_asked() -> None:
    with pytest.raises(UsageError) as caught:
        explain(VARIED, everything(VARIED, varied=("", "llvm=18")), "mlir/tile/ir/mm@llvm=22")
    assert str(caught.value) == (
        "there is no test 'mlir/tile/ir/mm@llvm=22': the catalog has no test with this combination"
    )


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


def test_the_rules_of_other_suites_that_have_the_test_are_told_too() -> None:
    """Each with the pins as that suite spells them."""
    product = "product: {framework: [mlir], target: [x86_64], workload: [mlp]}"
    both = catalog(
        {
            "one": f"blocks: [{{{product}, pins: {{llvm: ['22']}}}}]\n",
            "two": f"blocks: [{{{product}, pins: {{llvm: ['22.1.8']}}}}]\n"
            "expect: [{tests: ['mlir/**/mlp@llvm=22.1.8'], outcome: mismatch, reason: known}]\n",
        }
    )
    one, two = (expand(both, both.suites[name]) for name in ("one", "two"))
    found = explain(both, one, "mlir/linalg-loops/x86_64/mlp@llvm=22", others=[two])
    assert [(row.rule.kind, row.suite) for row in found.rules] == [
        ("block", "one"),
        ("block", "two"),
        ("expect", "two"),
    ]
    assert "block of suite two: " in found.to_text()
