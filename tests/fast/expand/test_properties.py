"""What properties ask of workloads and cells: each that says nothing has a sentence, and so has each that cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.models import base
from mlir_matrix.catalog.models.suites import Agreement, Batch, Permutation, Property, SameIr, Scaling
from mlir_matrix.expand.properties import place, reader, resolve_property, selfish, senseless
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector
from mlir_matrix.expand.suite import expand
from mlir_matrix.expand.test_sets import TestProperty
from support.catalogs import catalog, entry
from support.catalogs import suite as make_suite

CATALOG = catalog()
WORKLOAD = """\
description: d
dims: {B: 5, K: 7, ONE: 1}
inputs:
  x: {shape: [B, K], dtype: f32, formula: iota()}
  n: {shape: [K, 3], dtype: i32, formula: iota()}
  flag: {shape: [ONE], dtype: bool, formula: iota()}
  square: {shape: [B, B], dtype: f32, formula: iota()}
outputs:
  y: {shape: [B], dtype: f32}
  total: {shape: [3], dtype: i32, compare: exact}
"""


def property_kind(text: str) -> Any:
    """The property of a text."""
    return entry("suites", Property, "p", f"tests: ['**']\nreason: r\n{text}").document.property_kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("scaling: {inputs: {x: 2, n: -3}, outputs: {y: 4, total: 3}}", ""),
        ("scaling: {inputs: {z: 2}}", "it has no input 'z'; known: flag, n, square, x"),
        ("scaling: {inputs: {x: 2}, outputs: {totl: 2}}", "it has no output 'totl'; did you mean 'total'?"),
        ("scaling: {inputs: {x: 3}}", "'x' times 3 is rounded; take a power of two, or write within: tolerance"),
        ("scaling: {inputs: {x: 3}, within: tolerance}", ""),
        ("scaling: {inputs: {n: 0.5}}", "the input 'n' holds whole numbers, and 0.5 is not one"),
        ("scaling: {inputs: {flag: 2}}", "the input 'flag' is boolean and cannot be multiplied"),
        ("permutation: {dim: K}", ""),
        ("permutation: {dim: k}", "it has no dimension 'k'; did you mean 'K'?"),
        ("permutation: {dim: ONE}", "the dimension 'ONE' is 1: renumbering it tests nothing"),
        ("batch: {dim: K}", "the output 'y' has no dimension 'K', so that it has no halves"),
        ("batch: {dim: ONE}", "the dimension 'ONE' is 1: halving it tests nothing"),
    ],
)
def test_what_makes_no_sense_of_a_workload(text: str, says: str) -> None:
    workload = entry("workloads", base.Workload, "w", WORKLOAD).document
    assert senseless(workload, property_kind(text)) == says


def test_a_program_of_others_has_no_inputs_to_change() -> None:
    workload = entry("workloads", base.Workload, "w", "description: d\nsource: torch-module\n").document
    for kind in (Scaling(inputs={"x": 2}), Permutation(dim="B"), Batch(dim="B")):
        assert senseless(workload, kind).startswith("its program's own code declares its inputs; only 'agrees'")
    assert senseless(workload, Agreement(pipeline="b")) == ""


def test_a_batch_has_one_axis() -> None:
    text = WORKLOAD.replace("  total: {shape: [3], dtype: i32, compare: exact}\n", "")
    workload = entry("workloads", base.Workload, "w", text).document
    twice = "'square' has the dimension 'B' twice; a batch has one"
    assert senseless(workload, Batch(dim="B")) == twice
    assert senseless(workload, Permutation(dim="B")) == "", "renumbering both is right"


@pytest.mark.parametrize(
    ("suite_property", "mine"),
    [
        (Agreement(pipeline="b"), False),
        (Agreement(pipeline="a"), True),
        (Agreement(framework="f", pipeline="b"), False),
        (Agreement(framework="f", pipeline="a"), True),
        (Agreement(target="u"), False),
        (SameIr(framework="f", at="linalg"), True),
        (Scaling(inputs={"x": 2}), False),
    ],
)
def test_property_that_compares_tests_with_themselves(suite_property: Any, mine: bool) -> None:
    assert bool(selfish(suite_property, (("f",), ("a", "c"), ("t",)))) is mine


def related(suite_property: Any, *test: str) -> Any:
    connector = Connector(CATALOG)
    route = connector.route(*test)  # type: ignore[arg-type]
    assert not isinstance(route, Unsupported)
    return resolve_property(
        connector, TestProperty(name="p", property_kind=suite_property, position="s:1:1"), (*test, ""), route
    )  # type: ignore[arg-type]


def test_the_other_cell_is_named_in_part() -> None:
    found = related(Agreement(pipeline="linalg-tiled"), "pytorch", "linalg-loops", "wasm", "mlp")
    assert found.cell == ("pytorch", "linalg-tiled", "wasm")
    assert [step.name for step in found.route.steps] == ["torch-to-linalg", "tile", "lower"]


def test_the_other_may_be_unsupported() -> None:
    found = related(Agreement(pipeline="linalg-tiled"), "jax", "linalg-loops", "wasm", "mlp")
    assert isinstance(found, Unsupported)
    assert found.reason.startswith("the other test, jax/linalg-tiled/wasm/mlp, is unsupported: jax emits stablehlo")


def test_a_kind_may_not_be_on_the_route() -> None:
    found = related(SameIr(framework="jax", at="torch"), "pytorch", "linalg-loops", "wasm", "mlp")
    assert isinstance(found, Unsupported)
    assert found.reason == "the route of jax/linalg-loops/wasm/mlp does not pass torch, only stablehlo, linalg and llvm"


def test_the_last_place_of_a_kind_and_who_reads_it() -> None:
    connector = Connector(CATALOG)
    route = connector.route("pytorch", "linalg-tiled", "wasm", "mlp")
    assert not isinstance(route, Unsupported)
    assert [place(route, kind) for kind in ("torch", "linalg", "llvm", "tosa")] == [0, 2, 3, None]
    resolved_step = reader(route, "linalg")
    assert resolved_step is not None
    assert resolved_step.name == "lower"
    assert reader(route, "tosa") is None


def test_a_source_that_fixes_its_sizes_has_no_halves() -> None:
    fixed = catalog(frameworks={"mlir": "environment: e\nemits: {linalg: linalg.mlir}\nfixed_shapes: true"})
    connector = Connector(fixed)
    route = connector.route("mlir", "linalg-loops", "wasm", "mlp")
    assert not isinstance(route, Unsupported)
    suite_property = TestProperty(name="p", property_kind=Batch(dim="B"), position="s:1:1")
    found = resolve_property(connector, suite_property, ("mlir", "linalg-loops", "wasm", "mlp", ""), route)
    assert isinstance(found, Unsupported)
    assert found.reason.startswith("linalg.mlir of mlp fixes the size of B: ")


BLOCK = "blocks:\n- product: {framework: [pytorch, jax], pipeline: [linalg-loops], target: [wasm], workload: [mlp, softmax]}\n"


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ("- {tests: ['**'], scaling: {inputs: {z: 2}}, reason: r}",
         "s.yaml:5:3: property scaling of workload mlp: it has no input 'z'; known: x"),
        ("- {tests: ['**'], agrees: {pipeline: linalg-loops}, reason: r}",
         "s.yaml:5:3: property agrees: tests through linalg-loops would be compared with themselves; leave them out of 'tests'"),
        ("- {tests: ['onnx/**'], scaling: {inputs: {x: 2}}, reason: r}",
         "s.yaml:5:12: property onnx/** matches nothing: the tests that it names are not in suite s"),
        ("- {tests: ['**/mlp'], scaling: {inputs: {x: 2}}, reason: r}\n- {tests: ['jax/**'], scaling: {inputs: {x: 4}}, reason: r}",
         "s.yaml:6:3: jax/linalg-loops/wasm/mlp~scaling has a property of this name by suites/s.yaml:5:3; "
         "give one of them another 'name'"),
        ("- {tests: ['jax/**'], agrees: {pipeline: linalg-tiled}, reason: r}",
         "s.yaml:5:12: property jax/** applies to no test that can run: jax/linalg-loops/wasm/softmax~agrees is unsupported: "
         "the other test, jax/linalg-tiled/wasm/softmax, is unsupported: "
         "jax emits stablehlo; linalg-tiled takes torch or linalg"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_property(properties: str, error: str) -> None:
    with pytest.raises(CatalogError) as caught:
        expand(CATALOG, make_suite("s", f"{BLOCK}properties:\n{properties}"))
    assert str(caught.value) == f"suites/{error}"


def test_ir_tests_have_no_properties() -> None:
    text = "steps: [tile]\nproperties: [{tests: ['**'], scaling: {inputs: {x: 2}}, reason: r}]"
    with pytest.raises(CatalogError, match="matches only IR tests, which run no program"):
        expand(CATALOG, make_suite("s", text))
