"""Roads: preference, parameters with their origins, and the sentences for what cannot connect."""

from __future__ import annotations

import pytest
from catalogs import PIPELINES, catalog

from mlir_matrix.connect import Connector, Road, Unsupported, alternatives, connect, listed
from mlir_matrix.errors import CatalogError


def road(found: Road | Unsupported) -> Road:
    assert isinstance(found, Road), found
    return found


def reason(found: Road | Unsupported | tuple[Road, ...]) -> str:
    assert isinstance(found, Unsupported), found
    return found.reason


def test_a_road_passes_the_entry_and_then_the_shared_steps() -> None:
    found = road(connect(catalog(), "onnx", "linalg-loops", "x86_64"))
    assert (found.kind, found.source, found.ends) == ("torch-onnx", "onnx.py", "object")
    assert [(step.name, step.takes, step.gives) for step in found.steps] == [
        ("onnx-to-torch", "torch-onnx", "torch"),
        ("torch-to-linalg", "torch", "linalg"),
        ("lower", "linalg", "llvm"),
        ("emit", "llvm", "object"),
    ]
    assert found.position == "pipelines/linalg-loops.yaml:5:3"
    assert [step.position for step in found.steps] == [
        "pipelines/linalg-loops.yaml:5:16",
        "pipelines/linalg-loops.yaml:5:31",
        "pipelines/linalg-loops.yaml:7:9",
        "pipelines/linalg-loops.yaml:7:16",
    ]


def test_an_empty_entry_goes_straight_to_the_shared_steps() -> None:
    assert [step.name for step in road(connect(catalog(), "mlir", "linalg-loops", "x86_64")).steps] == ["lower", "emit"]


def test_parameters_say_where_their_value_comes_from() -> None:
    tile = road(connect(catalog(), "pytorch", "linalg-tiled", "x86_64")).steps[1]
    assert tile.parameters == {"size": 4, "unroll": True}
    size, unroll = tile.arguments
    assert (size.default, size.position) == (False, "pipelines/linalg-tiled.yaml:7:12")
    assert unroll.default
    assert unroll.position.startswith("steps/tile.yaml:6:")


def test_a_step_that_gives_nothing_of_its_own_keeps_the_kind() -> None:
    tile = road(connect(catalog(), "mlir", "linalg-tiled", "x86_64")).steps[0]
    assert (tile.takes, tile.gives) == ("linalg", "linalg")


def test_a_target_that_takes_an_earlier_kind_ends_the_road_there() -> None:
    found = road(connect(catalog(), "jax", "linalg-loops", "wasm"))
    assert [step.name for step in found.steps] == ["stablehlo-to-linalg", "lower"]
    assert found.ends == "llvm"


def test_a_road_that_runs_none_of_the_pipelines_own_steps_is_none() -> None:
    found = catalog(targets={"eager": "accepts: [linalg]"})
    assert reason(connect(found, "pytorch", "linalg-loops", "eager")) == (
        "pipeline linalg-loops ends in kind object; target eager runs linalg"
    )


def test_the_longest_part_that_the_target_takes_wins() -> None:
    found = catalog(targets={"both": "accepts: [llvm, object]"})
    assert road(connect(found, "mlir", "linalg-loops", "both")).ends == "object"


def test_unsupported_names_both_sides() -> None:
    found = catalog()
    assert reason(connect(found, "jax", "tosa-loops", "x86_64")) == (
        "jax emits stablehlo; tosa-loops takes tosa, torch, torch-onnx or linalg"
    )
    assert reason(connect(found, "jax", "linalg-loops", "gpu")) == (
        "pipeline linalg-loops ends in kind object; target gpu runs ptx or hsaco"
    )


def test_the_pipelines_order_decides_and_then_the_workloads_sources() -> None:
    connector = Connector(catalog())
    ways = connector.ways("mlir", "tosa-loops", "x86_64")
    assert isinstance(ways, tuple)
    assert [way.kind for way in ways] == ["tosa", "linalg"]
    assert road(connector.road("mlir", "tosa-loops", "x86_64", "mlp")).source == "tosa.mlir"
    only_linalg = Connector(catalog(workloads={"mlp": ("linalg.mlir",)}))
    assert road(only_linalg.road("mlir", "tosa-loops", "x86_64", "mlp")).source == "linalg.mlir"


def test_a_workload_without_a_source_says_which_files_would_do() -> None:
    connector = Connector(catalog())
    assert reason(connector.road("mlir", "tosa-loops", "x86_64", "topk")) == (
        "workload topk has no mlir source (tosa.mlir or linalg.mlir)"
    )
    assert reason(connector.road("onnx", "linalg-loops", "x86_64", "softmax")) == (
        "workload softmax has no onnx source (onnx.py)"
    )


def test_what_a_framework_cannot_express_says_why() -> None:
    assert reason(Connector(catalog()).road("onnx", "linalg-loops", "x86_64", "topk")) == (
        "onnx cannot express topk: its order is not defined"
    )


def test_the_cells_reason_comes_before_the_workloads() -> None:
    assert "onnx emits" in reason(Connector(catalog()).road("onnx", "linalg-tiled", "x86_64", "topk"))


def test_connect_agrees_with_the_connector() -> None:
    found = catalog()
    connector = Connector(found)
    for framework in found.frameworks:
        for pipeline in found.pipelines:
            for target in found.targets:
                ways = connector.ways(framework, pipeline, target)
                assert connect(found, framework, pipeline, target) == (ways[0] if isinstance(ways, tuple) else ways)


def test_a_step_that_does_not_take_what_arrives_is_the_catalogs_error() -> None:
    broken = PIPELINES | {"broken": "entry: {linalg: []}\nsteps: [emit]"}
    with pytest.raises(
        CatalogError, match=r"^pipelines/broken\.yaml:3:9: step emit takes llvm, and linalg arrives here"
    ):
        connect(catalog(pipelines=broken), "mlir", "broken", "x86_64")


@pytest.mark.parametrize(("names", "text"), [("a", "a"), ("ab", "a or b"), ("abc", "a, b or c")])
def test_alternatives(names: str, text: str) -> None:
    assert alternatives(names) == text
    assert listed(names) == text.replace("or", "and")
