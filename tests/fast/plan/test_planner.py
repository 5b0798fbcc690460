"""Planning the repository's own suite: what tests share, what each reads, and that no folder of this machine shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mlir_matrix.catalog.models.base import StepUse
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.catalog.run_lines import RunLine
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.plan_document import action_document
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.golden.explain import plan_magnitudes
from mlir_matrix.golden.update import plan_update
from mlir_matrix.plan.graph import File, Graph, PlannedAction, Produced
from mlir_matrix.plan.parameters import judged
from mlir_matrix.plan.planner import PlannedTests, Planner
from mlir_matrix.plan.references import add_reference
from mlir_matrix.plan.run_kernels import BENCH_SOURCES, DRIVER_SOURCES
from mlir_matrix.plan.session import plan_tests

TEST = "mlir/linalg-loops/x86_64/matmul"


@pytest.fixture(scope="module")
def smoke(current: Session) -> PlannedTests:
    return planned(current, "smoke")


def planned(session: Session, *words: str) -> PlannedTests:
    return plan_tests(session, choose(session.catalog, words, pins=session.pins).tests())


def chain(plan: PlannedTests, test: str) -> list[PlannedAction]:
    return [plan.graph.actions[name] for name in plan.graph.needed_by(plan.verdicts[test])]


def labels(plan: PlannedTests, test: str) -> list[str]:
    return [action.label for action in chain(plan, test)]


def test_every_test_that_can_run_has_its_verdict_and_no_other(smoke: PlannedTests) -> None:
    assert smoke.verdicts.keys() == {test.id for test in smoke.tests if test.outcome is None}
    ends = {smoke.graph.actions[action].tool for action in smoke.verdicts.values()}
    assert ends == {"judge", "irtest"}


def test_a_test_goes_its_pipelines_route(current: Session, smoke: PlannedTests) -> None:
    test = "jax/linalg-vectorized/x86_64/mlp"
    found = next(each for each in smoke.tests if each.id == test)
    assert found.route is not None
    steps = [step.name for step in found.route.steps]
    made = labels(smoke, test)
    assert [label for label in made if label in steps] == steps
    others = Counter(label.split("/", 1)[0] for label in made if label not in steps)
    assert others == {"import": 1, "link": 1, "driver": 1, "runtime": 1, "inputs": 1, "run": 1, "judge": 1}


def test_each_step_reads_what_the_one_before_made(smoke: PlannedTests) -> None:
    """Along the route every action reads its predecessor, so that none of a test's steps is left out."""
    for test in ("pytorch/linalg-loops/x86_64/conv2d", "onnx/tosa-loops/x86_64/softmax"):
        route = [action for action in chain(smoke, test) if action.tool in ("passes", "object", "link", "run", "judge")]
        for before, after in pairwise(route):
            assert before.id in after.sources


def test_what_makes_mlir_is_held_to_the_contract_of_its_kind(current: Session, smoke: PlannedTests) -> None:
    made = {action.label: action.params.get("contract") for action in chain(smoke, "pytorch/linalg-loops/x86_64/mlp")}
    kinds = {label: held["kind"] for label, held in made.items() if held}
    assert kinds == {
        "import/pytorch/mlp": "torch",
        "torch-to-linalg": "linalg",
        "linalg-fuse": "linalg",
        "bufferize": "bufferized",
        "linalg-to-loops": "loops",
        "loops-to-llvm": "llvm",
    }
    assert "linalg.*" in made["linalg-to-loops"]["forbid"]
    (alone, _) = chain(planned(current, "mlir/linalg-fuse/ir/chain"), "mlir/linalg-fuse/ir/chain")
    assert alone.params["contract"].keys() == made["linalg-fuse"].keys() - {"main"}


def test_sources_come_first_everywhere(smoke: PlannedTests) -> None:
    seen: set[str] = set()
    for action in smoke.graph.actions.values():
        assert set(action.sources) <= seen
        for ref in action.inputs.values():
            if isinstance(ref, Produced):
                assert ref.output in smoke.graph.actions[ref.action].outputs
        seen.add(action.id)


def test_tests_share_what_they_have_in_common(current: Session) -> None:
    loops, named = "pytorch/linalg-loops/x86_64/mlp", "pytorch/linalg-named/x86_64/mlp"
    plan = planned(current, loops, named)
    shared = {action.id for action in chain(plan, loops)} & {action.id for action in chain(plan, named)}
    assert {plan.graph.actions[name].tool for name in shared} >= {"python_file", "inputs", "link_kit", "passes"}
    assert {"object", "link", "run", "judge"}.isdisjoint(plan.graph.actions[name].tool for name in shared)


def test_each_framework_imports_a_workload_once(smoke: PlannedTests) -> None:
    imports = Counter(label for label in (name.rsplit("-", 1)[0] for name in smoke.graph.actions) if "import/" in label)
    assert set(imports.values()) == {1}
    assert {label.split("/")[1] for label in imports} == {"pytorch", "jax", "onnx", "mlir"}


def test_planning_does_not_depend_on_what_else_is_planned(current: Session, smoke: PlannedTests) -> None:
    test = "mlir/linalg-loops/x86_64/matmul"
    alone = planned(current, test)
    assert alone.verdicts[test] == smoke.verdicts[test]
    assert [action.id for action in chain(alone, test)] == [action.id for action in chain(smoke, test)]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_part_of_a_plan_is_the_plan_of_its_tests(current: Session, smoke: PlannedTests, step: int) -> None:
    tests = smoke.tests[::step]
    part, alone = smoke.only(tests), plan_tests(current, tests)
    assert (part.tests, part.verdicts, part.graph.actions) == (alone.tests, alone.verdicts, alone.graph.actions)
    known = set[str]()
    for name, action in part.graph.actions.items():
        assert known.issuperset(action.sources)
        known.add(name)


def test_two_plans_are_equal(current: Session, smoke: PlannedTests) -> None:
    again = planned(current, "smoke")
    assert list(again.graph.actions.items()) == list(smoke.graph.actions.items())
    assert again.verdicts == smoke.verdicts


def test_no_folder_of_this_machine_shows(current: Session, smoke: PlannedTests) -> None:
    text = json.dumps([action_document(action, smoke.graph) for action in smoke.graph.actions.values()])
    for folder in (*current.catalog.roots, current.home.cache, current.home.state):
        assert str(folder) not in text


def test_what_a_judge_is_told(current: Session, smoke: PlannedTests) -> None:
    judge = chain(smoke, "pytorch/linalg-loops/x86_64/topk")[-1]
    outputs = current.catalog.workloads["topk"].document.outputs
    assert [told["name"] for told in judge.params["outputs"]] == list(outputs)
    for told in judge.params["outputs"]:
        bound = ToleranceResolver(current.catalog).of(
            next(t for t in smoke.tests if t.id.endswith("linalg-loops/x86_64/topk")), told["name"]
        )
        assert (told["atol"], told["rtol"], told["layer"]) == (bound.atol, bound.rtol, bound.location)
        golden = judge.inputs[f"expected-{told['name']}"]
        assert golden == File(0, f"golden/topk/{told['name']}.npy", optional=True)


def test_a_golden_that_is_computed(current: Session) -> None:
    """The judge reads the reference's outputs, which come of the inputs that the kernel is given; explain measures the same."""
    catalog, name = current.catalog, "mlir/linalg-loops/x86_64/matmul"
    entry = catalog.workloads["matmul"]
    document = entry.document.model_copy(update={"golden": "computed"})
    session = replace(
        current,
        catalog=replace(catalog, workloads={**catalog.workloads, "matmul": replace(entry, document=document)}),
    )
    route = {action.tool: action for action in chain(planned(session, name), name)}
    assert route["judge"].inputs["expected-y"] == Produced(route["reference"].id, "expected-y")
    assert (route["reference"].stage, route["judge"].params["outputs"][0]["shape"]) == ("judge", [65, 97])
    assert route["reference"].inputs["arg-x"] == route["run"].inputs["arg-x"]
    graph, last = plan_magnitudes(session.catalog, session.catalog.workloads["matmul"])
    assert graph.actions[last].inputs["golden-y"] == Produced(route["reference"].id, "expected-y")


def test_tests_that_differ_in_their_bounds_are_judged_apart(current: Session, smoke: PlannedTests) -> None:
    """Parameters of judges are shared where the bounds are the same, and only there."""
    by_params: dict[str, set[Any]] = {}
    for test in smoke.tests:
        if test.id in smoke.verdicts and not test.is_ir:
            action = smoke.graph.actions[smoke.verdicts[test.id]]
            by_params.setdefault(action.params_digest, set()).add(bounds(current, test))
    assert len(by_params) > 1
    assert all(len(found) == 1 for found in by_params.values())


def bounds(current: Session, test: Test) -> tuple[Any, ...]:
    names = current.catalog.workloads[test.workload].document.outputs
    found = [ToleranceResolver(current.catalog).of(test, name) for name in names]
    return tuple((name, bound.atol, bound.rtol, bound.location) for name, bound in zip(names, found, strict=True))


def test_an_ir_test_is_its_step_and_the_check(smoke: PlannedTests) -> None:
    test = "mlir/linalg-fuse/ir/chain"
    step, check = chain(smoke, test)
    case = File(0, "recipes/steps/linalg-fuse/tests/chain.mlir")
    assert step.inputs["ir"] == case
    assert (check.tool, check.inputs) == ("irtest", {"ir": Produced(step.id, "ir"), "test": case})


def test_releases_of_an_ir_test_are_actions_of_their_own(current: Session) -> None:
    plan = planned(current, "mlir/linalg-fuse/ir/chain@llvm={19,22}", "mlir/linalg-fuse/ir/chain")
    environments = [chain(plan, test.id)[0].environment for test in plan.tests]
    assert environments == ["mlir", "mlir@llvm=19.1.7", "mlir@llvm=22.1.8"]


def test_parameters_reach_the_step(current: Session) -> None:
    plan = planned(current, "mlir/linalg-vectorized/x86_64/matmul")
    tile = next(action for action in plan.graph.actions.values() if action.id.startswith("linalg-tile-vectorize"))
    assert tile.params["parameters"] == {"rows": 8, "columns": 16, "depth": 1, "vector": 16}
    assert tile.inputs["schedule"] == File(0, "recipes/steps/linalg-tile-vectorize/schedule.mlir")
    objects = [action for action in plan.graph.actions.values() if action.tool == "object"]
    assert [(action.params["parameters"], action.native) for action in objects] == [({"opt-level": 3}, True)]


def test_only_what_is_for_this_cpu_depends_on_it(current: Session) -> None:
    """Bindings cannot but compile for it; programs do where they are told."""
    target = current.catalog.targets["aarch64"]
    codegen = target.document.codegen[0]
    assert isinstance(codegen, StepUse)
    use = codegen.model_copy(update={"parameters": {**codegen.parameters, "cpu": "native"}})
    told = replace(target, document=target.document.model_copy(update={"codegen": (use,)}))
    own = replace(current.catalog, targets={**current.catalog.targets, "aarch64": told})
    arm = "mlir/linalg-loops/aarch64/matmul"
    for session, test, backend, native in (
        (current, TEST, "bindings", True),
        (pinned(current, llvm="19.1.7"), TEST, "programs", False),
        (current, arm, "programs", False),
        (replace(current, catalog=own, pins=Pins(own)), arm, "programs", True),
    ):
        made = [action for action in chain(planned(session, test), test) if action.id.startswith("object")]
        assert [(action.tool, action.params["backend"], action.native) for action in made] == [
            ("object", backend, native)
        ]


def test_the_driver_is_linked_into_every_kernel_and_the_library_reads_none_of_it(
    current: Session, smoke: PlannedTests
) -> None:
    kits = {tuple(action.outputs): action for action in smoke.graph.actions.values() if action.tool == "link_kit"}
    assert kits.keys() == {("runtime",), ("driver",)}
    assert kits["runtime",].inputs == {}
    assert {ref.path for ref in kits["driver",].inputs.values() if isinstance(ref, File)} == set(DRIVER_SOURCES)
    assert all((current.catalog.roots[0] / path).is_file() for path in DRIVER_SOURCES)
    expected = {kits["runtime",].id, kits["driver",].id}
    links = [action for action in smoke.graph.actions.values() if action.tool == "link"]
    assert links
    assert all(expected <= set(action.sources) for action in links)


def test_what_is_compiled_in_memory_is_linked_with_nothing(current: Session) -> None:
    """One library for all kernels; the release compiles and runs them, at the pipeline's level, for this CPU.

    Each is an action of its own, so that what cannot be compiled fails at the stage at which it does elsewhere.
    """
    plan = planned(pinned(current, llvm="19.1.7"), "mlir/linalg-{loops,vectorized}/x86_64-jit/{dot,exp}")
    actions = plan.graph.actions.values()
    (library,) = (action for action in actions if action.tool == "link_kit")
    assert dict(library.outputs) == {"library": "driver.so"}
    assert {ref.path for ref in library.inputs.values() if isinstance(ref, File)} == set(DRIVER_SOURCES)
    runs = [action for action in actions if action.stage == "run"]
    assert {(run.tool, run.environment, run.native) for run in runs} == {("run_jit", "mlir@llvm=19.1.7", True)}
    assert sorted(run.params["parameters"]["opt-level"] for run in runs) == [2, 2, 3, 3]
    compiled = [action for action in actions if action.tool == "compile_jit"]
    assert {(each.stage, each.environment, each.native) for each in compiled} == {("codegen", "mlir@llvm=19.1.7", True)}
    assert len(compiled) == len(runs)
    by_id = {each.id: each for each in compiled}
    for run in runs:
        kernel = run.inputs["ir"]
        assert isinstance(kernel, Produced)
        assert by_id[kernel.action].params == {"parameters": run.params["parameters"]}
        assert by_id[kernel.action].inputs["driver"] == run.inputs["driver"] == Produced(library.id, "library")
    assert not [action for action in actions if action.tool in ("link", "object")]


def test_every_driver_source_is_listed(current: Session) -> None:
    folder = current.catalog.roots[0] / "tools" / "driver"
    found = {path.name for path in folder.iterdir() if path.suffix in (".c", ".h")}
    # No kernel is linked with the one that measures the machine.
    assert found - {"peaks.c"} == {path.rsplit("/", 1)[1] for path in (*DRIVER_SOURCES, *BENCH_SOURCES)}


def test_an_environment_that_stands_in_changes_no_name(current: Session) -> None:
    swapped = Session(
        catalog=current.catalog, home=current.home, pins=Pins(current.catalog, {}, {"mlir": "torch-mlir"})
    )
    plan = plan_tests(swapped, choose(current.catalog, (TEST,)).tests())
    assert {action.environment for action in chain(plan, TEST)} == {
        action.environment for action in chain(planned(current, TEST), TEST)
    }


def pinned(current: Session, **pins: str) -> Session:
    return replace(current, pins=Pins(current.catalog, pins, current.pins.swaps))


def test_a_pinned_release_shows_in_the_environments_of_what_it_makes_and_nowhere_else(current: Session) -> None:
    own = pinned(current, llvm="19.1.7")
    plain, plan = chain(planned(current, TEST), TEST), chain(planned(own, TEST), TEST)
    assert [action.label for action in plan] == [action.label for action in plain]
    for action, before in zip(plan, plain, strict=True):
        components = current.catalog.environments[before.environment.partition("@")[0]].document.components
        assert action.environment == (
            f"{before.environment}@llvm=19.1.7" if "llvm" in components else before.environment
        )
    changed = [
        action.tool for action, before in zip(plan, plain, strict=True) if action.environment != before.environment
    ]
    assert {"python_file", "passes", "object"} == set(changed)
    asked = [action.params for action in plan if action.tool in changed]
    assert {params["backend"] for params in asked} == {"programs"}
    assert all("bindings" not in params for params in asked)


def test_pins_in_an_identifier_and_pins_of_a_person_make_the_same_actions(current: Session) -> None:
    named, asked = f"{TEST}@llvm=19", planned(pinned(current, llvm="19.1.7"), TEST)
    by_name = planned(current, named)
    assert by_name.verdicts[named] == asked.verdicts[TEST]
    assert [action.id for action in chain(by_name, named)] == [action.id for action in chain(asked, TEST)]


def test_tests_under_different_releases_share_what_no_release_changes(current: Session) -> None:
    names = [f"{TEST}@llvm=18", f"{TEST}@llvm=19", TEST]
    plan = planned(current, *names)
    shared = set.intersection(*({action.id for action in chain(plan, name)} for name in names))
    assert {plan.graph.actions[name].tool for name in shared} == {"inputs", "link_kit"}
    assert len({plan.verdicts[name] for name in names}) == 3


def test_an_ir_test_is_made_by_the_release_that_is_pinned(current: Session) -> None:
    case = "mlir/linalg-to-loops/ir/scatter"
    step, check = chain(planned(pinned(current, llvm="19.1.7"), case), case)
    assert (step.tool, step.params["backend"], step.environment) == ("passes", "programs", "mlir@llvm=19.1.7")
    assert (check.tool, check.environment, check.params) == ("irtest", "mlir@llvm=19.1.7", {"filecheck": "llvm 19.1.7"})
    # The default release comes as bindings, without programs.
    before = chain(planned(current, case), case)[1]
    assert (before.tool, before.environment, before.params) == ("irtest", "filecheck", {})


def test_each_run_line_has_a_step_of_its_own_with_its_parameters(current: Session) -> None:
    entry = current.catalog.steps["linalg-tile-vectorize"]
    lines = [RunLine(1, (), ()), RunLine(2, (("rows", 4),), ("--check-prefix=FOUR",))]
    steps = {**current.catalog.steps, entry.name: replace(entry, runs={"matmul": lines})}
    catalog = replace(current.catalog, steps=steps)
    test = "mlir/linalg-tile-vectorize/ir/matmul"
    *steps_made, check = chain(planned(replace(current, catalog=catalog, pins=Pins(catalog)), test), test)
    made = {Produced(step.id, "ir"): step.params["parameters"]["rows"] for step in steps_made}
    assert [made[check.inputs[name]] for name in ("ir", "ir-1")] == [8, 4]
    assert check.params["runs"] == [{"line": 1, "options": []}, {"line": 2, "options": ["--check-prefix=FOUR"]}]


def test_a_target_that_needs_a_command_to_run_gives_it_to_its_runs(current: Session) -> None:
    entry = current.catalog.targets["x86_64"]
    document = entry.document.model_copy(update={"runner": ("qemu-x86_64", "-L", "/")})
    catalog = replace(current.catalog, targets={"x86_64": replace(entry, document=document)})
    own = replace(current, catalog=catalog, pins=Pins(catalog))
    for session, command in ((current, None), (own, ["qemu-x86_64", "-L", "/"])):
        (run,) = [action for action in chain(planned(session, TEST), TEST) if action.tool == "run"]
        assert run.params.get("runner") == command


def test_targets_that_run_the_same_module_are_told_their_own_runner(current: Session) -> None:
    """Runs share their parameters where they are the same, and only there."""
    entry = current.catalog.targets["x86_64-jit"]
    other = replace(entry, name="other", document=entry.document.model_copy(update={"runner": ("other", "-v")}))
    catalog = replace(current.catalog, targets={**current.catalog.targets, "other": other})
    session = replace(current, catalog=catalog, pins=Pins(catalog, {"llvm": "19.1.7"}))
    names = [f"mlir/linalg-loops/{target}/dot" for target in ("x86_64-jit", "other")]
    plan = planned(session, *names)
    runs = [action for name in names for action in chain(plan, name) if action.stage == "run"]
    assert [run.params.get("runner") for run in runs] == [None, ["other", "-v"]]
    assert len({run.inputs["ir"] for run in runs}) == 1


def test_references_read_only_their_source_and_the_inputs(current: Session) -> None:
    entry = current.catalog.workloads["mlp"]
    graph = Graph()
    end = graph.actions[add_reference(graph, current.catalog, entry)]
    made = graph.actions[end.sources[0]]
    assert [action.tool for action in graph.actions.values()] == ["inputs", "reference"]
    assert end.inputs == {
        "source": File(0, "matrix/workloads/mlp/reference.py"),
        **{f"arg-{name}": Produced(made.id, name) for name in entry.document.inputs},
    }
    assert list(end.outputs) == [f"expected-{name}" for name in entry.document.outputs]


def enlarged(current: Session, **sizes: int) -> Session:
    """The session with other dimensions of softmax."""
    entry = current.catalog.workloads["softmax"]
    document = entry.document.model_copy(update={"dims": {**entry.document.dims, **sizes}})
    workloads = {**current.catalog.workloads, "softmax": replace(entry, document=document)}
    catalog = replace(current.catalog, workloads=workloads)
    return replace(current, catalog=catalog, pins=Pins(catalog))


@pytest.mark.parametrize(("rows", "name"), [(1024, "expected-y"), (1025, "sketch-y")])
def test_goldens_of_more_than_a_mebibyte_are_sketches(current: Session, rows: int, name: str) -> None:
    session = enlarged(current, M=rows, N=128)
    file = {"expected-y": "y.npy", "sketch-y": "y.sketch.npy"}[name]
    test = "mlir/linalg-loops/x86_64/softmax"
    judge = chain(planned(session, test), test)[-1]
    assert {key: ref for key, ref in judge.inputs.items() if isinstance(ref, File)} == {
        name: File(0, f"golden/softmax/{file}", optional=True)
    }
    graph, updates = plan_update(session.catalog, [session.catalog.workloads["softmax"]])
    needed = [graph.actions[action] for action in graph.needed_by(updates["softmax"].differences)]
    tools = [action.tool for action in needed]
    assert tools == ["inputs", "reference", *(["sketch"] if rows > 1024 else []), "golden_difference"]
    assert needed[-1].inputs == {
        # By these it knows how the reference itself rounds.
        **needed[1].inputs,
        "new-y": updates["softmax"].made["y"],
        "old-y": File(0, f"golden/softmax/{file}", optional=True),
    }


def test_other_draws_are_judged_by_all_of_what_is_expected(current: Session) -> None:
    session = enlarged(current, M=2048)
    planner = Planner(session.catalog, ToleranceResolver(session.catalog).of, session.pins)
    (test,) = choose(session.catalog, ("mlir/linalg-loops/x86_64/softmax",)).tests()
    expected = {"y": Produced("reference", "expected-y")}
    judge = planner.graph.actions[planner.judge(test, "run", expected)]
    assert judge.inputs["expected-y"] == expected["y"]
    assert "sketch-y" not in judge.inputs


def test_bounds_are_made_of_what_references_read(current: Session) -> None:
    entry = current.catalog.workloads["topk"]
    graph = Graph()
    reference = graph.actions[add_reference(graph, current.catalog, entry)]
    bounds = graph.actions[add_reference(graph, current.catalog, entry, tool="forward_error")]
    assert (bounds.inputs, bounds.params) == (reference.inputs, reference.params)
    assert bounds.outputs == {
        "expected-values": "values.npy", "expected-indices": "indices.npy",
        "bound-values": "values.bound.npy", "bound-indices": "indices.bound.npy",
    }  # fmt: skip
    other = graph.actions[add_reference(graph, current.catalog, entry, draw=1, tool="forward_error")]
    assert other.inputs != bounds.inputs


def test_references_and_tests_are_given_the_same_inputs(current: Session, smoke: PlannedTests) -> None:
    graph = Graph()
    for workload in current.catalog.workloads.values():
        add_reference(graph, current.catalog, workload)
    ours: Mapping[str, PlannedAction] = {
        action.id: action for action in graph.actions.values() if action.tool == "inputs"
    }
    theirs = {action.id for action in smoke.graph.actions.values() if action.tool == "inputs"}
    # The suite leaves some workloads out.
    assert theirs <= ours.keys()
    assert len(theirs) > 20


def test_the_judge_is_told_a_distance_in_numbers_where_a_layer_gives_one(current: Session) -> None:
    (test,) = choose(current.catalog, ("mlir/linalg-loops/x86_64/matmul",)).tests()
    workload = current.catalog.workloads["matmul"].document
    bound = ToleranceResolver(current.catalog).of(test, "y")
    (without,) = judged(current.catalog, workload, [bound])
    assert not {"max_ulp", "max_ulp_text"} & without.keys()
    (given,) = judged(current.catalog, workload, [replace(bound, max_ulp=2.0, max_ulp_text="2")])
    assert given == without | {"max_ulp": 2.0, "max_ulp_text": "2"}
