"""Goldens of costs are written as small edits of their files."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.expand.costs import CostResolver
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.suite import everything
from mlir_matrix.golden.costs import CellCosts, edited
from mlir_matrix.golden.documents import NewCost
from support.right_catalog import RIGHT, Tree

TEST = "pytorch/plain/x86_64/mlp"
LAYERS = """\
# Comments stay.
layers:
  - match: {framework: pytorch, pipeline: plain, target: x86_64}
    costs:
      code_bytes: 64   # as does this one
      instructions: 1000
  - match: {framework: pytorch}
    costs: {allocations: 1}
"""


def named() -> Test:
    names = {"framework": "pytorch", "pipeline": "plain", "target": "x86_64", "workload": "mlp"}
    more = {"route": None, "resolved_step": None, "outcome": None, "expectation": None}
    return Test(id=TEST, pins="", reason="", selected=True, **names, **more)  # type: ignore[arg-type]


def cell(**costs: float) -> CellCosts:
    new: list[NewCost] = [{"cost": name, "golden": None, "value": value} for name, value in costs.items()]
    return CellCosts(test=named(), file=Path("costs.yaml"), known=True, costs=new)


def test_a_number_changes_in_place_and_a_new_cost_comes_first() -> None:
    text = edited(LAYERS, [cell(instructions=2000, d1_misses=7)])
    assert text == LAYERS.replace("1000", "2000").replace("      code_bytes", "      d1_misses: 7\n      code_bytes")


def test_a_cell_without_a_layer_of_its_own_gets_one_at_the_end() -> None:
    shared = LAYERS.replace(", pipeline: plain", "")
    added = """\
  - match: {framework: pytorch, pipeline: plain, target: x86_64}
    costs:
      instructions: 2000
      vector_share: 0.25
"""
    assert edited(shared, [cell(instructions=2000, vector_share=0.25)]) == shared + added
    assert edited("layers:\n", [cell(instructions=2000, vector_share=0.25)]) == "layers:\n" + added


def test_any_layout_of_yaml_is_edited() -> None:
    flow = "layers: [{match: {framework: pytorch, pipeline: plain, target: x86_64}, bounds: {code_bytes: 1}, rationale: r}]\n"
    assert "[{costs: {instructions: 5}, match:" in edited(flow, [cell(instructions=5)])
    other = "layers: [{match: {framework: jax}, costs: {code_bytes: 1}}]\n"
    assert edited(other, [cell(instructions=5)]).endswith(", target: x86_64}, costs: {instructions: 5}}]\n")
    bare = "layers:\n- match:\n    framework: pytorch\n    pipeline: plain\n    target: x86_64\n  bounds: {code_bytes: 1}\n"
    assert edited(bare, [cell(instructions=5)]) == bare.replace("- match:", "- costs: {instructions: 5}\n  match:")


NUMBERS = st.integers(0, 10**12) | st.decimals(0, 1, places=4).map(float)
COSTS = st.dictionaries(st.sampled_from(["instructions", "code_bytes", "d1_misses", "vector_share"]), NUMBERS)


@given(COSTS, COSTS)
def test_what_is_written_is_what_is_read(first: dict[str, float], second: dict[str, float]) -> None:
    text = edited(edited("layers:\n", [cell(instructions=0, **{"code_bytes": 1})]), [cell(**first)])
    text = edited(text, [cell(**second)])
    (layer,) = yaml.safe_load(text)["layers"]
    assert layer["costs"] == {"instructions": 0, "code_bytes": 1} | first | second


def test_the_loader_reads_it(tmp_path: Path) -> None:
    tree = Tree(tmp_path, RIGHT)
    tree.write("golden/mlp/costs.yaml", edited("layers:\n", [cell(instructions=5, cycles_znver4=2.5)]))
    catalog = tree.load()
    test = everything(catalog).test(TEST)
    assert test is not None
    goldens = CostResolver(catalog).of(test)
    assert {name: golden.value for name, golden in goldens.items()} == {"instructions": 5, "cycles_znver4": 2.5}
