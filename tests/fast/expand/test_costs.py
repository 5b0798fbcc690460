"""Which golden and which bound a cost of a test has."""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.expand.costs import CostResolver
from mlir_matrix.expand.suite import everything
from support.right_catalog import RIGHT, Tree

GENERAL = """\
layers:
  - match: {}
    bounds: {instructions: 1 %, cycles_*: 5 % + 10}
    rationale: the general ones
  - match: {workload: mlp}
    bounds: {instructions: 3 %}
    rationale: a special one
"""
MLP = """\
layers:
  - match: {framework: pytorch, pipeline: plain, target: x86_64}
    costs: {instructions: 1000}
  - costs: {instructions: 2000, code_bytes: 64, cycles_znver4: 100}
"""


def goldens(tree: Tree, test: str) -> dict[str, tuple[float, str, float | str, str]]:
    catalog = tree.load()
    named = everything(catalog).test(test)
    assert named is not None
    found = CostResolver(catalog).of(named)
    return {name: (each.value, each.position, each.bound.text, each.bound.position) for name, each in found.items()}


def test_each_cost_and_each_bound_is_from_the_most_specific_layer_that_has_it(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {**RIGHT, "golden/costs.yaml": GENERAL, "golden/mlp/costs.yaml": MLP})

    found = goldens(tree, "pytorch/plain/x86_64/mlp")
    assert found["instructions"][:3] == (1000, "golden/mlp/costs.yaml:3:13", "3 %")
    assert found["instructions"][3] == "golden/costs.yaml:6:14"
    assert found["code_bytes"][:2] == (64, "golden/mlp/costs.yaml:4:33")
    # No layer has a bound of it.
    assert found["code_bytes"][2:] == (0, "")
    # A bound may be for all costs that begin alike.
    assert found["cycles_znver4"][2:] == ("5 % + 10", "golden/costs.yaml:3:33")


def test_a_workload_without_goldens_has_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {**RIGHT, "golden/costs.yaml": GENERAL})
    assert goldens(tree, "pytorch/plain/x86_64/mlp") == {}
