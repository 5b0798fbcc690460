"""Suites expand as their words say: against a brute-force evaluator, and case by case with the messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.names import TestGlob
from mlir_matrix.catalog.models.suites import Expectations
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import CostRule, Expansion
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector
from mlir_matrix.expand.suite import everything, expand
from support import reference_evaluator
from support.catalogs import STEPS, catalog, entry
from support.catalogs import suite as make_suite

CATALOG = catalog()
ONE = "product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64], workload: [mlp, topk]}"
NAMES = {
    "framework": ["pytorch", "jax", "onnx", "mlir", "*", "*x"],
    "pipeline": ["linalg-loops", "linalg-tiled", "tosa-loops", "linalg-*", "*-loops"],
    "target": ["x86_64", "wasm", "gpu", "*", "w*"],
    "workload": ["mlp", "softmax", "topk", "*", "*p*"],
}
PINS = {"llvm": ["17", "18", "18.1.8", "22"], "onnx": ["1.22"], "idle": ["1"]}
#: Mostly wide, so that rules often meet; sometimes about IR tests, sometimes about nothing.
tests = st.one_of(
    st.tuples(*[st.sampled_from(["*", "*", "*", *names]) for names in NAMES.values()]).map("/".join),
    st.sampled_from(
        ["**", "mlir/**", "**/mlp", "**/topk", "mlir/**/mm", "jax/**/topk", "mlir/t*/ir/mm", "**/q", "jax/*/ir/*"]
    ),
)
suffixes = ["", "", "", "@llvm=18", "@llvm=*", "@*llvm=1[78]*", "@{llvm=18,llvm=22}", "@onnx=*", "@*", "@llvm=99"]
globs = st.builds("{}{}".format, tests, st.sampled_from(suffixes))
#: Of tests with properties too, where no test without any is meant.
wide_globs = st.builds("{}{}{}".format, tests, st.sampled_from(["", "", "~twice", "~*"]), st.sampled_from(suffixes))
stated = st.sampled_from(
    [{"scaling": {"inputs": {"x": 2}}}, {"scaling": {"inputs": {"x": 3}, "within": "tolerance"}},
     {"agrees": {"pipeline": "linalg-tiled"}}, {"agrees": {"framework": "jax", "target": "x86_64"}}]
)  # fmt: skip
properties = st.builds(
    lambda property_kind, name, tests: {**property_kind, **name, "tests": tests, "reason": "so it is"},
    stated,
    st.sampled_from([{}, {"name": "twice"}]),
    st.lists(globs, min_size=1, max_size=2),
)


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Any]:
    zipped = draw(st.sets(st.sampled_from(list(NAMES)), max_size=3))
    length = draw(st.integers(1, 3))
    block: dict[str, Any] = {"zip": {}, "product": {}}
    for axis, names in NAMES.items():
        entry = st.sampled_from(names)
        if axis in zipped:
            block["zip"][axis] = draw(st.lists(entry, min_size=length, max_size=length))
        elif draw(st.booleans()):
            block["product"][axis] = draw(st.lists(entry, min_size=1, max_size=3))
    if draw(st.integers(0, 4)) == 0:
        block = {"steps": draw(st.lists(st.sampled_from(["*", "tile", "torch-*"]), min_size=1, max_size=2))}
    if draw(st.booleans()):
        for component in draw(st.sets(st.sampled_from(["llvm"] * 8 + ["onnx"] * 3 + ["idle"]), max_size=2)):
            releases = st.lists(st.sampled_from(PINS[component]), min_size=1, max_size=3)
            block.setdefault("pins", {})[component] = draw(releases)
    return block


suites = st.fixed_dictionaries(
    {
        "blocks": st.lists(blocks(), min_size=1, max_size=3),
        "steps": st.lists(st.sampled_from(["*", "tile", "torch-*"]), max_size=2),
        "include": st.lists(globs, max_size=2),
        "properties": st.lists(properties, max_size=2),
        "exclude": st.lists(
            st.fixed_dictionaries({"tests": st.lists(wide_globs, min_size=1, max_size=2), "reason": st.just("slow")}),
            max_size=2,
        ),
        "expect": st.lists(
            st.fixed_dictionaries(
                {
                    "tests": st.lists(wide_globs, min_size=1, max_size=2),
                    "outcome": st.sampled_from(["lower-failed", "lower-failed", "mismatch"]),
                    "reason": st.just("known"),
                }
            ),
            max_size=2,
        ),
    }
)


def expansion(text: str) -> Expansion:
    return expand(CATALOG, make_suite("s", text))


@given(suites, wide_globs)
def test_expansion_agrees_with_brute_force(data: dict[str, Any], glob: str) -> None:
    suite = make_suite("s", "\n".join(f"{key}: {json.dumps(value)}" for key, value in data.items()))
    try:
        expected = reference_evaluator.evaluate(CATALOG, suite)
    except reference_evaluator.NothingError:
        with pytest.raises(CatalogError, match=r"^suites/s\.yaml:\d+:\d+: "):
            expand(CATALOG, suite)
        return
    found = expand(CATALOG, suite)
    kept = [identifier for identifier, verdict in expected.items() if not verdict.dropped]
    assert list(found.ids()) == kept
    assert found.count() == len(kept)
    assert [test.id for test in found.tests()] == kept
    assert [test.id for test in found.tests(excluded=True)] == list(expected)
    for test in found.tests(excluded=True):
        check(test, expected[test.id])
    patterns = found.namespace.patterns(glob)
    matches = TestGlob(glob).matches
    assert list(found.ids(patterns)) == [identifier for identifier in kept if matches(identifier)]
    assert found.count(patterns) == sum(map(matches, kept))
    assert [test.id for test in found.tests(patterns, excluded=True)] == [name for name in expected if matches(name)]


def check(test: Any, verdict: reference_evaluator.Verdict) -> None:
    """One test of the expansion against what brute force says about it."""
    suffix = f"@{test.pins}" if test.pins else ""
    assert test.id == f"{test.framework}/{test.pipeline}/{test.target}/{test.called}{suffix}"
    assert (test.tested_property is not None) == ("~" in test.id)
    assert test.excluded == bool(verdict.dropped)
    assert test.selected == (verdict.runs and not verdict.dropped)
    if verdict.dropped:
        assert test.reason == f"left out by {verdict.dropped}: slow"
    elif verdict.runs:
        assert test.reason == f"in by {verdict.origin}"
        assert test.outcome is None
        assert (test.route is None) == test.is_ir
        assert (test.resolved_step is not None) == test.is_ir
    else:
        assert test.outcome == "unsupported"
        connector = Connector(CATALOG)
        if test.is_ir:
            route: object = connector.resolved_step(test.pipeline, test.pins)
        else:
            route = connector.route(test.framework, test.pipeline, test.target, test.workload, test.pins)
        if isinstance(route, Unsupported):
            assert test.reason == route.reason
        else:
            assert test.reason.startswith("the other test, ")
    assert (test.expectation.outcome if test.expectation else None) == verdict.expected


@given(suites)
def test_expanding_twice_gives_the_same(data: dict[str, Any]) -> None:
    suite = make_suite("s", "\n".join(f"{key}: {json.dumps(value)}" for key, value in data.items()))
    try:
        first = list(expand(CATALOG, suite).tests(excluded=True))
    except CatalogError:
        return
    assert first == list(expand(CATALOG, suite).tests(excluded=True))


def test_zipped_axes_advance_together_also_with_workloads() -> None:
    found = expansion(
        "blocks:\n- zip: {framework: [pytorch, jax], workload: [mlp, topk]}\n"
        "  product: {pipeline: [linalg-loops], target: [x86_64]}"
    )
    assert list(found.ids()) == ["pytorch/linalg-loops/x86_64/mlp", "jax/linalg-loops/x86_64/topk"]


def test_overlapping_blocks_give_a_test_once_and_the_first_block_owns_it() -> None:
    found = expansion(
        "blocks:\n"
        "- product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64], workload: [softmax]}\n"
        "- product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64]}\n"
        "- product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64], workload: [topk, mlp]}\n"
    )
    assert [(test.workload, test.reason) for test in found.tests()] == [
        ("softmax", "in by suites/s.yaml:3:3"),
        ("mlp", "in by suites/s.yaml:4:3"),
        ("topk", "in by suites/s.yaml:4:3"),
    ]


def test_pins_are_one_more_axis_each_inside_a_cell() -> None:
    found = expansion(f"blocks:\n- {ONE}\n  pins: {{ziglang: ['0.16', '0.17'], llvm: ['22', '18']}}")
    assert list(found.ids()) == [
        f"jax/linalg-loops/x86_64/{workload}@llvm={llvm},ziglang={zig}"
        for llvm in ("22", "18")
        for zig in ("0.16", "0.17")
        for workload in ("mlp", "topk")
    ]
    test = found.test("jax/linalg-loops/x86_64/mlp@llvm=18,ziglang=0.16")
    assert test is not None
    assert (test.pins, test.selected, test.reason) == ("llvm=18,ziglang=0.16", True, "in by suites/s.yaml:3:3")
    assert test.route is not None
    assert test.route.steps[0].resolved_step.environment == "e@llvm=18.1.8"
    assert test.route.linker == "zig@ziglang=0.16.0"


def test_a_release_that_is_listed_twice_gives_its_tests_once() -> None:
    found = expansion(f"blocks:\n- {ONE}\n  pins: {{llvm: ['18', '18']}}")
    assert list(found.ids()) == ["jax/linalg-loops/x86_64/mlp@llvm=18", "jax/linalg-loops/x86_64/topk@llvm=18"]
    assert found.count() == 2


def test_blocks_with_and_without_pins_are_different_tests() -> None:
    found = expansion(f"blocks:\n- {ONE}\n- {ONE}\n  pins: {{llvm: ['18']}}\n- {ONE}\n  pins: {{llvm: ['18', '22']}}")
    assert [(test.id.rsplit("/", 1)[1], test.reason) for test in found.tests()] == [
        ("mlp", "in by suites/s.yaml:3:3"),
        ("topk", "in by suites/s.yaml:3:3"),
        ("mlp@llvm=18", "in by suites/s.yaml:4:3"),
        ("topk@llvm=18", "in by suites/s.yaml:4:3"),
        ("mlp@llvm=22", "in by suites/s.yaml:6:3"),
        ("topk@llvm=22", "in by suites/s.yaml:6:3"),
    ]


def test_rules_speak_of_pins_or_of_any() -> None:
    found = expansion(
        f"blocks:\n- {ONE}\n  pins: {{llvm: ['17', '18', '22']}}\n"
        "exclude:\n- {tests: ['**/topk@llvm=1*'], reason: old}\n"
        "expect:\n- {tests: ['**/mlp@{llvm=18,llvm=22}'], outcome: mismatch, reason: some}\n"
        "- {tests: ['**/topk'], outcome: crashed, reason: all}\n"
    )
    told = {
        test.id.rsplit("/", 1)[1]: "out" if test.excluded else test.expectation and test.expectation.outcome
        for test in found.tests(excluded=True)
    }
    assert told == {
        "mlp@llvm=17": None,
        "topk@llvm=17": "out",
        "mlp@llvm=18": "mismatch",
        "topk@llvm=18": "out",
        "mlp@llvm=22": "mismatch",
        "topk@llvm=22": "crashed",
    }


def test_what_no_recipe_can_do_with_a_release_is_unsupported() -> None:
    found = expansion(
        "blocks:\n- product: {framework: [pytorch, onnx], pipeline: ['linalg-*'], target: [x86_64], workload: [mlp]}\n"
        "  pins: {llvm: ['17', '18'], onnx: ['1.22', '1.23.2']}"
    )
    patterns = found.namespace.patterns("pytorch/linalg-tiled/**")
    sentences = {test.pins: (test.outcome, test.reason) for test in found.tests(patterns)}
    variant = "step tile has no variant for llvm 17.0.6; it has variants for llvm >=19; llvm 18"
    for onnx in ("1.22", "1.23.2"):
        outcome, reason = sentences[f"llvm=17,onnx={onnx}"]
        assert (outcome, reason[: len(variant)]) == ("unsupported", variant)
        assert sentences[f"llvm=18,onnx={onnx}"] == ("unsupported", "nothing on the route of this cell uses onnx")


def test_an_exclusion_takes_included_tests_out_too() -> None:
    found = expansion("include: ['jax/**/mlp']\nexclude: [{tests: ['**/gpu/*'], reason: r}]")
    assert all("/gpu/" not in identifier for identifier in found.ids())
    assert found.count() == 6


def test_a_suite_has_the_tests_and_rules_of_those_that_it_includes_once() -> None:
    rules = "expect: [{tests: ['jax/**/topk'], outcome: mismatch, reason: known}]"
    other = f"suites: [outer]\nblocks: [{{{ONE}}}]\n{rules}\n"
    outer = "suites: [other, other]\nexclude: [{tests: ['**/mlp'], reason: slow}]\n"
    catalogs = catalog({"other": other, "outer": outer})
    found = expand(catalogs, catalogs.suites["outer"])
    assert list(found.ids()) == ["jax/linalg-loops/x86_64/topk"]
    (test,) = found.tests()
    assert test.expectation is not None
    assert (test.reason, test.expectation.reason) == ("in by suites/other.yaml:3:10", "known")
    assert list(expand(catalogs, catalogs.suites["other"]).ids()) == list(found.ids())


def test_a_suite_asks_for_costs_as_strictly_as_any_that_it_includes() -> None:
    suites = {
        "note": f"blocks: [{{{ONE}}}]\ncost: note\n",
        "strict": "suites: [note, fails]\n",
        "fails": f"blocks: [{{{ONE}}}]\ncost: fail\n",
        "silent": f"blocks: [{{{ONE}}}]\n",
    }
    catalogs = catalog(suites)
    found = {name: {test.cost for test in expand(catalogs, catalogs.suites[name]).tests()} for name in suites}
    assert found["silent"] == {None}
    assert found["note"] == {CostRule(False, "suites/note.yaml:3:1")}
    assert found["fails"] == found["strict"] == {CostRule(True, "suites/fails.yaml:3:1")}


def test_ir_tests_of_steps_are_tests() -> None:
    found = expansion("steps: ['t*']\nexclude: [{tests: ['mlir/tile/ir/mm'], reason: r}]")
    assert list(found.ids()) == ["mlir/torch-to-linalg/ir/add", "mlir/torch-to-linalg/ir/mm"]
    test = found.test("mlir/torch-to-linalg/ir/mm")
    assert test is not None
    assert (test.is_ir, test.selected, test.route, test.reason) == (True, True, None, "in by suites/s.yaml:2:9")
    assert test.resolved_step is not None
    assert (test.resolved_step.name, test.resolved_step.environment) == ("torch-to-linalg", "e")


def test_ir_tests_follow_the_pins_that_are_asked_for() -> None:
    suite = make_suite("s", "steps: [tile]")
    for release, passes, environment in (("18.1.8", "old", "e@llvm=18.1.8"), ("19.1.7", "new", "e")):
        (test,) = expand(CATALOG, suite, Pins(CATALOG, {"llvm": release})).tests()
        assert test.resolved_step is not None
        assert (test.resolved_step.passes, test.resolved_step.environment) == (passes, environment)
    (test,) = expand(CATALOG, suite, Pins(CATALOG, {"llvm": "17.0.6"})).tests()
    assert (test.outcome, test.resolved_step, test.id) == ("unsupported", None, "mlir/tile/ir/mm")
    assert test.reason.startswith("step tile has no variant for llvm 17.0.6; it has variants for llvm >=19; llvm 18")


def test_a_block_varies_the_releases_of_ir_tests() -> None:
    found = expansion(
        "blocks: [{steps: [tile, torch-*], pins: {llvm: ['17', '18', '22']}}]\n"
        "expect: [{tests: ['mlir/tile/ir/mm@llvm=22'], outcome: mismatch, reason: r}]"
    )
    tests = {test.id: test for test in found.tests()}
    assert list(tests)[:3] == [f"mlir/tile/ir/mm@llvm={release}" for release in (17, 18, 22)]
    assert len(tests) == 9
    unsupported = tests["mlir/tile/ir/mm@llvm=17"]
    assert (unsupported.outcome, unsupported.is_ir) == ("unsupported", True)
    assert unsupported.reason.startswith("step tile has no variant for llvm 17.0.6")
    assert tests["mlir/tile/ir/mm@llvm=22"].expectation is not None
    for release, passes in (("18", "old"), ("22", "new")):
        step = tests[f"mlir/tile/ir/mm@llvm={release}"].resolved_step
        assert step is not None
        assert (step.passes, step.environment.partition(".")[0]) == (passes, f"e@llvm={release}")
    assert found.test("mlir/tile/ir/mm@llvm=18.1.8") == tests["mlir/tile/ir/mm@llvm=18"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "blocks: [{steps: [tile], pins: {onnx: ['1.22']}}]",
            "2:33: no route or step of this block uses onnx: all of its tests would be unsupported",
        ),
        (
            "blocks: [{steps: [tile], pins: {llvm: ['17']}}]\nexpect: [{tests: ['mlir/**'], outcome: mismatch, reason: r}]",
            "3:19: expectation mlir/** applies to no test that can run: step tile has no variant for llvm 17.0.6",
        ),
        (
            "steps: [tile]\nexclude: [{tests: ['jax/**'], reason: r}]",
            "3:20: exclude jax/** matches nothing: the tests that it names are not in suite s",
        ),
        (
            "steps: ['*']\nexpect: [{tests: ['*/*/*/mlp'], outcome: mismatch, reason: r}]",
            "3:19: expect */*/*/mlp matches nothing: the tests that it names are not in suite s",
        ),
        (
            "steps: ['*']\nexclude: [{tests: ['**/mm'], reason: r}]\n"
            "expect: [{tests: ['**/mm'], outcome: mismatch, reason: r}]",
            "4:19: expectation **/mm applies to no test that can run: suites/s.yaml:3:20 leaves mlir/t",
        ),
        (
            "include: ['onnx/**']\nexpect: [{tests: ['onnx/**/topk'], outcome: mismatch, reason: r}]",
            "3:19: expectation onnx/**/topk applies to no test that can run: ",
        ),
        (
            f"blocks:\n- {ONE}\nexclude: [{{tests: ['**@llvm=18'], reason: r}}]",
            "4:20: exclude **@llvm=18 matches nothing: suite s has no such tests with these pins",
        ),
        (
            f"blocks:\n- {ONE}\n  pins: {{llvm: ['18']}}\nexclude: [{{tests: ['jax/**/mlp@llvm=19'], reason: r}}]",
            "5:20: exclude jax/**/mlp@llvm=19 matches nothing: suite s has no such tests with these pins",
        ),
        (
            "steps: [tile]\nexclude: [{tests: ['mlir/tile/ir/mm@llvm=18'], reason: r}]",
            "3:20: exclude mlir/tile/ir/mm@llvm=18 matches nothing: suite s has no such tests with these pins",
        ),
        (
            "include: [jax/linalg-loops/x86_64/mlp@llvm=18]",
            "2:11: include jax/linalg-loops/x86_64/mlp@llvm=18 matches nothing: "
            "tests with pins come only from a block with 'pins'",
        ),
        (
            "blocks:\n- product: {framework: [pytorch], pipeline: [linalg-tiled], target: [wasm]}\n"
            "  pins: {llvm: ['17', '18']}\nexpect: [{tests: ['**@llvm=17'], outcome: mismatch, reason: r}]",
            "5:19: expectation **@llvm=17 applies to no test that can run: step tile has no variant for llvm 17.0.6",
        ),
        (
            "blocks:\n- product: {framework: [jax, onnx], pipeline: [linalg-loops], target: [x86_64]}\n"
            "  pins: {onnx: ['1.22']}\nexpect: [{tests: ['jax/**'], outcome: mismatch, reason: r}]",
            "5:19: expectation jax/** applies to no test that can run: nothing on the route of this cell uses onnx",
        ),
        (
            f"blocks:\n- {ONE}\n  pins: {{onnx: ['1.22']}}",
            "4:10: no route or step of this block uses onnx: all of its tests would be unsupported",
        ),
        (
            f"blocks:\n- {ONE}\n- {ONE}\n  pins: {{llvm: ['18'], ziglang: ['0.17'], idle: ['1']}}",
            "5:43: no route or step of this block uses idle: all of its tests would be unsupported",
        ),
        (
            f"blocks:\n- {ONE}\n  pins: {{llvm: ['18', '22']}}\n"
            "exclude: [{tests: ['**/mlp@llvm=18'], reason: r}]\n"
            "expect: [{tests: ['**/mlp@llvm=18'], outcome: mismatch, reason: r}]",
            "6:19: expectation **/mlp@llvm=18 applies to no test that can run: "
            "suites/s.yaml:5:20 leaves jax/linalg-loops/x86_64/mlp@llvm=18 out",
        ),
        (
            f"blocks:\n- {ONE}\n  pins: {{llvm: ['18', '22']}}\nexpect:\n- {{tests: ['**'], outcome: mismatch, reason: r}}\n"
            "- {tests: ['**@llvm=22'], outcome: crashed, reason: r}",
            "7:12: **@llvm=22 expects crashed of jax/linalg-loops/x86_64/mlp@llvm=22, "
            "but suites/s.yaml:6:12: ** expects mismatch",
        ),
        (
            "steps: ['*']\nexpect:\n- {tests: ['**'], outcome: mismatch, reason: r}\n"
            "- {tests: ['**/mm'], outcome: crashed, reason: r}",
            "5:12: **/mm expects crashed of mlir/tile/ir/mm, but suites/s.yaml:4:12: ** expects mismatch",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        expansion(text)
    assert str(caught.value).startswith(f"suites/s.yaml:{message}")


def test_no_route_uses_all_that_a_block_varies() -> None:
    own = catalog(targets={"x86_64": "accepts: [llvm]", "wasm": "accepts: [llvm]\nrunner_environment: other"})
    text = (
        "blocks:\n- zip: {framework: [onnx, jax], target: [x86_64, wasm]}\n"
        "  product: {pipeline: [linalg-loops]}\n  pins: {onnx: ['1.22'], idle: ['1']}"
    )
    with pytest.raises(CatalogError) as caught:
        expand(own, make_suite("s", text))
    assert str(caught.value) == (
        "suites/s.yaml:5:3: no route or step of this block uses all of onnx and idle: all of its tests would be unsupported"
    )
    assert expand(own, make_suite("s", text.replace("[onnx, jax]", "[jax, onnx]"))).count() == 6


def test_what_a_block_varies_may_be_idle_where_nothing_connects_and_with_what_a_person_asks_for() -> None:
    text = "blocks:\n- product: {framework: [jax], pipeline: [tosa-loops]}\n  pins: {onnx: ['1.22']}"
    assert {test.outcome for test in expansion(text).tests()} == {"unsupported"}
    idle = make_suite("s", f"blocks:\n- {ONE}\n  pins: {{onnx: ['1.22']}}")
    assert expand(CATALOG, idle, Pins(CATALOG, {"llvm": "18.1.8"})).count() == 2


def test_what_a_suite_varies_nobody_can_pin_beside_it() -> None:
    suite = make_suite("s", f"blocks:\n- {ONE}\n- {ONE}\n  pins: {{llvm: ['18', '22']}}")
    with pytest.raises(UsageError) as caught:
        expand(CATALOG, suite, Pins(CATALOG, {"llvm": "18.1.8"}))
    assert str(caught.value) == (
        "--pin llvm: suite s runs over its releases (suites/s.yaml:5:10); choose some by a glob: s '**@llvm=18'"
    )
    found = expand(CATALOG, suite, Pins(CATALOG, {"ziglang": "0.16.0"}))
    assert {test.route.linker for test in found.tests() if test.route} == {"zig@ziglang=0.16.0"}


@pytest.mark.parametrize(
    "pins", [Pins(CATALOG, {"llvm": "17.0.6"}), Pins(CATALOG, {}, {"e": "other"}), Pins(CATALOG, {"llvm": "19.1.7"})]
)
def test_expectations_may_be_idle_with_what_a_person_asks_for(pins: Pins) -> None:
    steps = STEPS | {"tile": STEPS["tile"] + "\nrequires: [{component: idle, releases: '2', reason: r}]"}
    own = catalog(steps=steps)
    suite = make_suite(
        "s",
        "blocks: [{product: {framework: [mlir], pipeline: [linalg-tiled], target: [wasm], workload: [mlp]}}]\n"
        "expect: [{tests: ['**'], outcome: mismatch, reason: known}]",
    )
    (test,) = expand(own, suite, Pins(own, pins.overrides, pins.swaps)).tests()
    works = pins.overrides.get("llvm") == "19.1.7"
    assert (test.outcome, bool(test.expectation)) == ((None, True) if works else ("unsupported", False))


def test_two_expectations_of_the_same_outcome_may_overlap_and_the_first_speaks() -> None:
    found = expansion(
        "steps: ['*']\nexpect:\n- {tests: ['**/mm'], outcome: mismatch, reason: first, link: l}\n"
        "- {tests: ['**'], outcome: mismatch, reason: second}"
    )
    reasons = [test.expectation.reason for test in found.tests() if test.expectation]
    assert reasons == ["first", "second", "first"]


def test_expectations_may_differ_about_tests_that_cannot_run() -> None:
    text = (
        "include: ['*/linalg-loops/x86_64/topk']\n"
        "expect:\n- {tests: ['{onnx,jax}/**'], outcome: mismatch, reason: r}\n"
        "- {tests: ['{onnx,pytorch}/**'], outcome: crashed, reason: r}\n"
    )
    outcomes = {test.framework: test.expectation.outcome for test in expansion(text).tests() if test.expectation}
    assert outcomes == {"jax": "mismatch", "pytorch": "crashed"}
    both = text.replace("{onnx,pytorch}", "{jax,pytorch}")
    with pytest.raises(CatalogError, match="a test has one expected outcome"):
        expansion(both)


def test_everything_holds_all_tests_and_the_default_suites_expectations_of_what_it_does_not_exclude() -> None:
    smoke = (
        "blocks: [{product: {framework: [pytorch], target: [x86_64]}}]\n"
        "exclude: [{tests: ['**/softmax'], reason: slow}]\n"
        "expect: [{tests: ['pytorch/**'], outcome: mismatch, reason: known}]"
    )
    found = everything(catalog({"smoke": smoke}))
    assert list(found.ids()) == reference_evaluator.everything(CATALOG)
    expected = {test.id for test in found.tests() if test.expectation}
    pipelines = ("linalg-loops", "linalg-tiled", "tosa-loops")
    assert expected == {
        f"pytorch/{pipeline}/{target}/{workload}"
        for pipeline in pipelines
        for target in ("x86_64", "wasm")
        for workload in ("mlp", "topk")
    }


def test_everything_may_pin_what_the_default_suite_varies() -> None:
    smoke = f"blocks:\n- {ONE}\n  pins: {{llvm: ['18']}}\nexpect: [{{tests: ['**@llvm=18'], outcome: mismatch, reason: known}}]"
    own = catalog({"smoke": smoke})
    found = everything(own, pins=Pins(own, {"llvm": "22.1.8"}))
    test = found.test("jax/linalg-loops/x86_64/mlp")
    assert test is not None
    assert test.route is not None
    assert (test.route.steps[0].resolved_step.environment, test.expectation) == ("e@llvm=22.1.8", None)


def test_everything_with_pins_has_the_default_suites_expectations_of_them() -> None:
    smoke = (
        f"blocks:\n- {ONE}\n  pins: {{llvm: ['18', '22']}}\n"
        "expect: [{tests: ['jax/*-loops/x86_64/mlp@llvm=18'], outcome: mismatch, reason: known}]"
    )
    found = everything(catalog({"smoke": smoke}), varied=("", "llvm=18", "llvm=22"))
    assert found.count() == 3 * len(reference_evaluator.everything(CATALOG))
    assert [test.id for test in found.tests() if test.expectation] == ["jax/linalg-loops/x86_64/mlp@llvm=18"]


def test_everything_spells_pins_as_the_default_suite_does() -> None:
    smoke = (
        f"blocks:\n- {ONE}\n  pins: {{llvm: ['18'], ziglang: ['0.16', '0.17.0']}}\n"
        "expect: [{tests: ['jax/linalg-*/x86_64/mlp@llvm=18,ziglang=0.16'], outcome: mismatch, reason: known}]"
    )
    varied = ("", "ziglang=0.16.0,llvm=18.1.8", "llvm=22", "llvm=18,ziglang=0.17.0", "llvm=18.1.8,ziglang=0.17")
    found = everything(catalog({"smoke": smoke}), varied=varied)
    assert found.products[0].pins == ("", "llvm=18,ziglang=0.16", "llvm=22", "llvm=18,ziglang=0.17.0")
    assert [test.id for test in found.tests() if test.expectation] == [
        "jax/linalg-loops/x86_64/mlp@llvm=18,ziglang=0.16"
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a/b/c/d", "a/b/c/d"),
        ("**", "**"),
        ("**@llvm=18,ziglang=0.16", "**@llvm=18,ziglang=0.16"),
        ("**@ziglang=0.16,llvm=18", "**@llvm=18,ziglang=0.16"),
        ("**@ziglang=0.16.0,llvm=18.1.8", "**@llvm=18,ziglang=0.16"),
        ("**@llvm=18.1,ziglang=0.16", "**@llvm=18,ziglang=0.16"),
        ("**@llvm=19,ziglang=0.16", "**@llvm=19,ziglang=0.16"),
        ("**@llvm=18.1.8", "**@llvm=18.1.8"),
        ("**@llvm=18*", "**@llvm=18*"),
        ("**@lvm=18", "**@lvm=18"),
        ("**@llvm", "**@llvm"),
        ("**@", "**@"),
    ],
)
def test_pins_are_spelled_as_the_tests_have_them(written: str, meant: str) -> None:
    assert expansion(f"blocks:\n- {ONE}\n  pins: {{llvm: ['18', '22'], ziglang: ['0.16']}}").spelled(written) == meant


def test_everything_needs_no_suite() -> None:
    found = everything(CATALOG)
    test = found.test("jax/linalg-loops/wasm/topk")
    assert test is not None
    assert (test.selected, test.reason, test.expectation) == (True, "in the catalog", None)
    assert found.test("jax/linalg-loops/wasm/none") is None


def test_expectations_by_test_join_those_of_the_suite() -> None:
    """A rule a test; a file may not contradict the suite, and applies to tests that can run."""
    text = "expect:\n- {outcome: crashed, reason: r, cell: jax/linalg-loops/x86_64, tests: [mlp, topk]}\n"

    def expanded(suite: str) -> Expansion:
        made = catalog({"s": f"blocks: [{{{ONE}}}]\n{suite}"})
        rules = entry("expectations", Expectations, "s", text)
        return expand(replace(made, expectations={"s": rules}), made.suites["s"])

    found = {test.id: test.expectation for test in expanded("").tests()}
    positions = {name: rule.position.rpartition("yaml:")[2] for name, rule in found.items() if rule}
    assert positions == {"jax/linalg-loops/x86_64/mlp": "2:72", "jax/linalg-loops/x86_64/topk": "2:77"}
    with pytest.raises(CatalogError, match=r"expects crashed of jax/linalg-loops/x86_64/mlp, but .* expects mismatch"):
        expanded("expect: [{tests: ['**/mlp'], outcome: mismatch, reason: r}]")
    with pytest.raises(
        CatalogError, match=r"applies to no test that can run: .* leaves jax/linalg-loops/x86_64/topk out"
    ):
        expanded("exclude: [{tests: ['**/topk'], reason: r}]")
