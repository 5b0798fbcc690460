"""Routes: preference, parameters with their origins, and the sentences for what cannot connect."""

from __future__ import annotations

import pytest

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector, Route, alternatives, word_list
from support.catalogs import STEPS, catalog


def route(found: Route | Unsupported) -> Route:
    assert isinstance(found, Route), found
    return found


def connect(catalog: Catalog, framework: str, pipeline: str, target: str) -> Route | Unsupported:
    """Return the preferred route of a cell."""
    routes = Connector(catalog).routes(framework, pipeline, target)
    return routes if isinstance(routes, Unsupported) else routes[0]


def reason(found: Route | Unsupported | tuple[Route, ...]) -> str:
    assert isinstance(found, Unsupported), found
    return found.reason


def test_a_route_passes_the_entry_and_then_the_shared_steps() -> None:
    found = route(connect(catalog(), "onnx", "linalg-loops", "x86_64"))
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
        "targets/x86_64.yaml:5:11",
    ]


def test_an_empty_entry_goes_straight_to_the_shared_steps() -> None:
    assert [step.name for step in route(connect(catalog(), "mlir", "linalg-loops", "x86_64")).steps] == [
        "lower",
        "emit",
    ]


def test_a_pipeline_without_steps_gives_a_target_what_the_framework_emits() -> None:
    """And a framework without an environment imports nothing."""
    found = catalog(
        frameworks={"lit": "emits: {llvm: lit.mlir}"},
        pipelines={"as-is": "entry: {llvm: []}\nsteps: []"},
        workloads={"mlp": ("lit.mlir",)},
        absent={},
        requires={},
    )
    connected = route(connect(found, "lit", "as-is", "wasm"))
    assert (connected.kind, connected.ends, connected.steps, connected.ingress) == ("llvm", "llvm", (), None)
    assert [step.name for step in route(connect(found, "lit", "as-is", "x86_64")).steps] == ["emit"]
    assert (
        reason(connect(found, "lit", "as-is", "gpu"))
        == "pipeline as-is ends in kind llvm; target gpu runs ptx or hsaco"
    )


def test_parameters_say_where_their_value_comes_from() -> None:
    tile = route(connect(catalog(), "pytorch", "linalg-tiled", "x86_64")).steps[1]
    assert tile.parameters == {"size": 4, "unroll": True}
    size, unroll = tile.arguments
    assert (size.default, size.position) == (False, "pipelines/linalg-tiled.yaml:7:12")
    assert unroll.default
    assert unroll.position.startswith("steps/tile.yaml:6:")


def test_a_step_that_gives_nothing_of_its_own_keeps_the_kind() -> None:
    tile = route(connect(catalog(), "mlir", "linalg-tiled", "x86_64")).steps[0]
    assert (tile.takes, tile.gives) == ("linalg", "linalg")


def test_a_step_gives_kinds_by_that_of_its_input() -> None:
    """Two targets have the same step on IR and on a package of it."""
    steps = STEPS | {
        "pack": "accepts: [llvm]\ngives: package",
        "emit": "accepts: [llvm, package]\ngives: {llvm: object}",
    }
    targets = {"plain": "accepts: [object]\ncodegen: [emit]", "packed": "accepts: [package]\ncodegen: [pack, emit]"}
    found = catalog(steps=steps, targets=targets)
    ends = {name: route(connect(found, "mlir", "linalg-loops", name)).steps[-1] for name in targets}
    assert {name: (step.name, step.takes, step.gives) for name, step in ends.items()} == {
        "plain": ("emit", "llvm", "object"),
        "packed": ("emit", "package", "package"),
    }


def test_a_target_that_takes_an_earlier_kind_ends_the_route_there() -> None:
    found = route(connect(catalog(), "jax", "linalg-loops", "wasm"))
    assert [step.name for step in found.steps] == ["stablehlo-to-linalg", "lower"]
    assert found.ends == "llvm"


@pytest.mark.parametrize("text", ["accepts: [linalg]", "accepts: [tosa]\ncodegen: [to-tosa]"])
def test_a_route_that_runs_none_of_the_pipelines_own_steps_is_none(text: str) -> None:
    found = catalog(targets={"eager": text}, steps=STEPS | {"to-tosa": "accepts: [linalg]\ngives: tosa"})
    sentence = reason(connect(found, "pytorch", "linalg-loops", "eager"))
    assert sentence.startswith("pipeline linalg-loops ends in kind llvm; target eager runs ")


def test_the_longest_part_that_the_target_takes_wins() -> None:
    found = catalog(targets={"both": "accepts: [llvm, object]"})
    assert route(connect(found, "mlir", "tosa-loops", "both")).ends == "object"
    assert route(connect(found, "mlir", "linalg-loops", "both")).ends == "llvm"


def test_unsupported_names_both_sides() -> None:
    found = catalog()
    assert reason(connect(found, "jax", "tosa-loops", "x86_64")) == (
        "jax emits stablehlo; tosa-loops takes tosa, torch, torch-onnx or linalg"
    )
    assert reason(connect(found, "jax", "linalg-loops", "gpu")) == (
        "pipeline linalg-loops ends in kind llvm; target gpu runs ptx or hsaco"
    )


def test_the_pipelines_order_decides_and_then_the_workloads_sources() -> None:
    connector = Connector(catalog())
    routes = connector.routes("mlir", "tosa-loops", "x86_64")
    assert isinstance(routes, tuple)
    assert [each.kind for each in routes] == ["tosa", "linalg"]
    assert route(connector.route("mlir", "tosa-loops", "x86_64", "mlp")).source == "tosa.mlir"
    only_linalg = Connector(catalog(workloads={"mlp": ("linalg.mlir",)}))
    assert route(only_linalg.route("mlir", "tosa-loops", "x86_64", "mlp")).source == "linalg.mlir"


def test_a_workload_without_a_source_says_which_files_would_do() -> None:
    connector = Connector(catalog())
    assert reason(connector.route("mlir", "tosa-loops", "x86_64", "topk")) == (
        "workload topk has no mlir source (tosa.mlir or linalg.mlir)"
    )
    assert reason(connector.route("onnx", "linalg-loops", "x86_64", "softmax")) == (
        "workload softmax has no onnx source (onnx.py)"
    )


def test_what_a_framework_cannot_express_says_why() -> None:
    assert reason(Connector(catalog()).route("onnx", "linalg-loops", "x86_64", "topk")) == (
        "onnx cannot express topk: its order is not defined"
    )


def test_the_cells_reason_comes_before_the_workloads() -> None:
    assert "onnx emits" in reason(Connector(catalog()).route("onnx", "linalg-tiled", "x86_64", "topk"))


def values(found: Route, step: str) -> list[tuple[str, object, str, bool]]:
    (arguments,) = [each.arguments for each in found.steps if each.name == step]
    return [(argument.name, argument.value, argument.position, argument.default) for argument in arguments]


def test_a_target_generates_code_with_the_values_of_the_pipeline() -> None:
    found = catalog()
    assert values(route(connect(found, "mlir", "linalg-tiled", "x86_64")), "emit") == [
        ("opt-level", 3, "pipelines/linalg-tiled.yaml:9:11", False)
    ]
    default = ("opt-level", 2, "steps/emit.yaml:5:42", True)
    assert values(route(connect(found, "mlir", "linalg-loops", "x86_64")), "emit") == [default]


def test_what_a_target_sets_itself_no_pipeline_changes() -> None:
    text = "accepts: [object]\ncodegen:\n- step: emit\n  with: {opt-level: 0}"
    for pipeline in ("linalg-tiled", "linalg-loops"):
        found = route(connect(catalog(targets={"x86_64": text}), "mlir", pipeline, "x86_64"))
        assert values(found, "emit") == [("opt-level", 0, "targets/x86_64.yaml:7:10", False)]


JIT = {"jit": "accepts: [llvm]\ntool: run_jit\nrunner_environment: e"}


def test_a_target_that_compiles_in_memory_runs_by_the_pinned_release() -> None:
    found = catalog(targets=JIT)
    for release, full in (("18", "18.1.8"), ("22", "22.1.8")):
        made = Connector(found).routes("mlir", "linalg-loops", "jit", f"llvm={release}")
        assert isinstance(made, tuple)
        assert (made[0].ends, made[0].runner.environment) == ("llvm", f"e@llvm={full}")


def test_where_programs_are_needed_and_there_are_bindings_only() -> None:
    assert reason(Connector(catalog(targets=JIT)).routes("mlir", "linalg-loops", "jit")) == (
        "target jit runs kernels by programs of a release, but llvm 19.1.7 has only Python bindings; pin another release"
    )
    nothing = {"jit": JIT["jit"].replace("environment: e", "environment: python")}
    assert reason(Connector(catalog(targets=nothing)).routes("mlir", "linalg-loops", "jit", "llvm=22")) == (
        "target jit runs kernels by programs of a release, but its environment has none; pin another release"
    )


def test_a_pipeline_that_reaches_the_target_is_given_no_more_steps() -> None:
    found = route(connect(catalog(), "mlir", "tosa-loops", "x86_64"))
    assert [step.name for step in found.steps] == ["tosa-to-linalg", "lower", "emit"]
    assert found.steps[-1].position.startswith("pipelines/tosa-loops.yaml:")


def test_code_is_generated_by_several_steps_and_from_an_earlier_kind() -> None:
    steps = STEPS | {"isel": "accepts: [llvm]\ngives: asm", "assemble": "accepts: [asm]\ngives: elf"}
    found = catalog(steps=steps, targets={"arm": "accepts: [elf]\ncodegen: [isel, assemble]"})
    for pipeline in ("linalg-loops", "tosa-loops"):
        names = [step.name for step in route(connect(found, "mlir", pipeline, "arm")).steps]
        assert names[-3:] == ["lower", "isel", "assemble"]


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("accepts: [object]\ncodegen: [isel]", "pipeline linalg-loops ends in kind llvm; target t runs object or asm"),
        ("accepts: [object]\ncodegen: [emit, isel]", "pipeline linalg-loops ends in kind llvm; target t runs object or llvm"),
        ("accepts: [ptx]\ncodegen: [emit]", "pipeline linalg-loops ends in kind llvm; target t runs ptx or llvm"),
    ],
)  # fmt: skip
def test_code_generation_that_does_not_fit(target: str, sentence: str) -> None:
    found = catalog(steps=STEPS | {"isel": "accepts: [asm]\ngives: object"}, targets={"t": target})
    assert reason(connect(found, "mlir", "linalg-loops", "t")) == sentence


def test_pins_decide_which_variant_a_route_takes() -> None:
    connector = Connector(catalog())
    for pins, passes, position in (("", "new", 1), ("llvm=22", "new", 1), ("llvm=18", "old", 2)):
        tile = route(connector.route("mlir", "linalg-tiled", "x86_64", "mlp", pins)).steps[0]
        assert (tile.resolved_step.passes, tile.resolved_step.variant) == (passes, f"steps/tile.yaml:{7 + position}:3")


def test_a_step_that_cannot_be_makes_the_cell_unsupported() -> None:
    connector = Connector(catalog())
    sentence = "step tile has no variant for llvm 17.0.6; it has variants for llvm >=19; llvm 18"
    assert reason(connector.routes("mlir", "linalg-tiled", "x86_64", "llvm=17")).startswith(sentence)
    assert reason(connector.resolved_step("tile", "llvm=17")).startswith(sentence)
    assert route(connector.route("mlir", "linalg-loops", "x86_64", "mlp", "llvm=17"))


def test_a_route_that_pins_rule_out_leaves_the_others() -> None:
    steps = STEPS | {"tosa-to-linalg": "accepts: [tosa]\ngives: linalg\nvariants: [{when: {llvm: '>=19'}}]"}
    connector = Connector(catalog(steps=steps))
    assert route(connector.route("mlir", "tosa-loops", "x86_64", "mlp")).source == "tosa.mlir"
    assert route(connector.route("mlir", "tosa-loops", "x86_64", "mlp", "llvm=18")).source == "linalg.mlir"


def test_what_a_workload_needs_of_the_compilers_on_its_route() -> None:
    connector = Connector(catalog())
    assert route(connector.route("jax", "linalg-loops", "x86_64", "softmax"))
    assert reason(connector.route("jax", "linalg-loops", "x86_64", "softmax", "llvm=17")) == (
        "workload softmax needs llvm !=17, but llvm 17.0.6 is pinned: it has no exp"
    )
    assert "has no onnx source" in reason(connector.route("onnx", "linalg-loops", "x86_64", "softmax", "llvm=17"))


@pytest.mark.parametrize(
    ("framework", "pins", "idle"),
    [
        ("jax", "onnx=1.22", "onnx"),
        ("onnx", "onnx=1.22", None),
        ("jax", "ziglang=0.16", None),
        ("jax", "llvm=18", None),
        ("jax", "idle=1", "idle"),
        ("jax", "idle=1,llvm=18", "idle"),
        ("jax", "llvm=18,onnx=1.22", "onnx"),
    ],
)
def test_pins_that_nothing_uses(framework: str, pins: str, idle: str | None) -> None:
    found = Connector(catalog()).route(framework, "linalg-loops", "x86_64", "mlp", pins)
    if idle:
        assert reason(found) == f"nothing on the route of this cell uses {idle}"
    else:
        assert route(found)


def test_what_the_routes_of_a_cell_use_does_not_depend_on_releases() -> None:
    found = catalog()
    own = catalog(targets={"jit": "accepts: [llvm]\ntool: run_jit\nrunner_environment: other"})
    assert Connector(found).uses("onnx", "linalg-loops", "x86_64") == [{"llvm", "onnx", "ziglang"}]
    assert Connector(found).uses("mlir", "tosa-loops", "x86_64") == [{"llvm", "ziglang"}] * 2
    assert Connector(found).uses("jax", "tosa-loops", "x86_64") == []
    assert Connector(found).uses("jax", "linalg-loops", "gpu") == []
    assert Connector(own).uses("jax", "linalg-loops", "jit") == [{"llvm", "ziglang", "idle"}]
    assert Connector(found, Pins(found, {}, {"e": "other"})).uses("jax", "linalg-loops", "wasm") == [
        {"llvm", "ziglang", "idle"}
    ]


def test_routes_name_environments_with_the_pins_that_differ() -> None:
    connector = Connector(catalog(), Pins(catalog(), {"llvm": "18.1.8"}))
    found = route(connector.route("onnx", "linalg-loops", "x86_64", "mlp", "ziglang=0.16"))
    assert found.ingress.environment == "o@llvm=18.1.8"
    assert {step.resolved_step.environment for step in found.steps} == {"e@llvm=18.1.8"}
    assert (found.linker, found.runner.environment) == ("zig@ziglang=0.16.0", "python")
    plain = route(Connector(catalog()).route("onnx", "linalg-loops", "x86_64", "mlp"))
    assert (plain.ingress.environment, plain.linker, plain.runner.environment) == ("o", "zig", "python")


def test_the_ingress_goes_by_programs_where_its_release_has_no_bindings() -> None:
    found = catalog(frameworks={"mlir": "environment: e\nemits: {linalg: linalg.mlir}"})
    for pins, backend, bindings in (("", "bindings", "mlir"), ("llvm=18", "programs", None)):
        ingress = route(Connector(found).route("mlir", "linalg-loops", "x86_64", "mlp", pins)).ingress
        assert (ingress.tool, ingress.backend, ingress.bindings) == ("python_file", backend, bindings)


def test_a_suffix_without_a_release_in_full_finds_it_and_is_remembered() -> None:
    connector = Connector(catalog())
    first = connector.routes("mlir", "linalg-loops", "x86_64", "llvm=18")
    assert connector.routes("mlir", "linalg-loops", "x86_64", "llvm=18") is first
    assert connector.pins("llvm=18").overrides == {"llvm": "18.1.8"}
    assert connector.pins("llvm=18") is connector.pins("llvm=18")


@pytest.mark.parametrize(("names", "text"), [("a", "a"), ("ab", "a or b"), ("abc", "a, b or c")])
def test_alternatives(names: str, text: str) -> None:
    assert alternatives(names) == text
    assert word_list(names) == text.replace("or", "and")
