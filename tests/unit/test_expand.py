"""Suites expand as their words say: against a brute-force evaluator, and case by case with the messages."""

from __future__ import annotations

import json
from typing import Any

import brute
import pytest
from catalogs import catalog
from catalogs import suite as make_suite
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.connect import Connector, Unsupported
from mlir_matrix.errors import CatalogError
from mlir_matrix.expand import everything, expand
from mlir_matrix.expansion import Expansion
from mlir_matrix.names import TestGlob

CATALOG = catalog()
NAMES = {
    "framework": ["pytorch", "jax", "onnx", "mlir", "*", "*x"],
    "pipeline": ["linalg-loops", "linalg-tiled", "tosa-loops", "linalg-*", "*-loops"],
    "target": ["x86_64", "wasm", "gpu", "*", "w*"],
    "workload": ["mlp", "softmax", "topk", "*", "*p*"],
}
#: Mostly wide, so that rules often meet; sometimes about IR tests, sometimes about nothing.
globs = st.one_of(
    st.tuples(*[st.sampled_from(["*", "*", "*", *names]) for names in NAMES.values()]).map("/".join),
    st.sampled_from(
        ["**", "mlir/**", "**/mlp", "**/topk", "mlir/**/mm", "jax/**/topk", "mlir/t*/ir/mm", "**/q", "jax/*/ir/*"]
    ),
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
    return block


suites = st.fixed_dictionaries(
    {
        "blocks": st.lists(blocks(), min_size=1, max_size=3),
        "steps": st.lists(st.sampled_from(["*", "tile", "torch-*"]), max_size=2),
        "include": st.lists(globs, max_size=2),
        "exclude": st.lists(
            st.fixed_dictionaries({"tests": st.lists(globs, min_size=1, max_size=2), "reason": st.just("slow")}),
            max_size=2,
        ),
        "expect": st.lists(
            st.fixed_dictionaries(
                {
                    "tests": st.lists(globs, min_size=1, max_size=2),
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


@settings(max_examples=400, deadline=None)
@given(suites, globs)
def test_expansion_agrees_with_brute_force(data: dict[str, Any], glob: str) -> None:
    suite = make_suite("s", "\n".join(f"{key}: {json.dumps(value)}" for key, value in data.items()))
    try:
        expected = brute.evaluate(CATALOG, suite)
    except brute.NothingError:
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
    boxes = found.universe.boxes(glob)
    matches = TestGlob(glob).matches
    assert list(found.ids(boxes)) == [identifier for identifier in kept if matches(identifier)]
    assert found.count(boxes) == sum(map(matches, kept))
    assert [test.id for test in found.tests(boxes, excluded=True)] == [name for name in expected if matches(name)]


def check(test: Any, verdict: brute.Verdict) -> None:
    """One test of the expansion against what brute force says about it."""
    assert test.id == f"{test.framework}/{test.pipeline}/{test.target}/{test.workload}"
    assert test.excluded == bool(verdict.dropped)
    assert test.selected == (verdict.runs and not verdict.dropped)
    if verdict.dropped:
        assert test.reason == f"left out by {verdict.dropped}: slow"
    elif verdict.runs:
        assert test.reason == f"in by {verdict.origin}"
        assert test.outcome is None
        assert (test.road is None) == test.is_ir
    else:
        assert test.outcome == "unsupported"
        road = Connector(CATALOG).road(test.framework, test.pipeline, test.target, test.workload)
        assert isinstance(road, Unsupported)
        assert test.reason == road.reason
    assert (test.expectation.outcome if test.expectation else None) == verdict.expected


@given(suites)
@settings(deadline=None)
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


def test_an_exclusion_takes_included_tests_out_too() -> None:
    found = expansion("include: ['jax/**/mlp']\nexclude: [{tests: ['**/gpu/*'], reason: r}]")
    assert all("/gpu/" not in identifier for identifier in found.ids())
    assert found.count() == 6


def test_ir_tests_of_steps_are_tests() -> None:
    found = expansion("steps: ['t*']\nexclude: [{tests: ['mlir/tile/ir/mm'], reason: r}]")
    assert list(found.ids()) == ["mlir/torch-to-linalg/ir/add", "mlir/torch-to-linalg/ir/mm"]
    test = found.test("mlir/torch-to-linalg/ir/mm")
    assert test is not None
    assert (test.is_ir, test.selected, test.road, test.reason) == (True, True, None, "in by suites/s.yaml:2:9")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("blocks: [{product: {framework: [jx]}}]", "2:33: there is no framework 'jx'; did you mean 'jax'?"),
        ("blocks: [{product: {pipeline: ['q*']}}]", "2:32: no pipeline matches 'q*'"),
        (
            "blocks: [{product: {pipeline: [tile]}}]",
            "2:32: there is no pipeline 'tile'; known: linalg-loops, linalg-tiled, tosa-loops",
        ),
        ("blocks: [{product: {target: []}}]", "2:21: axis target is empty; leave it out for all"),
        ("blocks: [{zip: {target: []}}]", "2:17: axis target is empty; leave it out for all"),
        (
            "blocks: [{zip: {framework: [jax, onnx], workload: [mlp]}}]",
            "2:11: zipped axes advance together and need equal lengths: framework has 2, workload has 1",
        ),
        (
            "blocks: [{zip: {framework: [jax]}, product: {framework: [jax]}}]",
            "2:17: axis framework is in product too; it can only be in one of them",
        ),
        ("blocks: [{zip: {framework: [jax, jux]}}]", "2:34: there is no framework 'jux'; did you mean 'jax'?"),
        ("steps: [lower]", "2:9: there is no step with IR tests 'lower'; known: tile, torch-to-linalg"),
        (
            "include: [jax/linalg-loops/x86/mlp]",
            "2:11: include jax/linalg-loops/x86/mlp matches nothing: there is no target 'x86'; did you mean 'x86_64'?",
        ),
        ("include: [jax/mlp]", "2:11: 'jax/mlp' has 2 parts, but a test is framework/pipeline/target/workload"),
        (
            "steps: [tile]\nexclude: [{tests: ['jax/**'], reason: r}]",
            "3:20: exclude jax/** matches nothing: the tests that it names are not in suite s",
        ),
        (
            "steps: [tile]\nexclude: [{tests: ['jaxx/**'], reason: r}]",
            "3:20: exclude jaxx/** matches nothing: there is no framework 'jaxx'; did you mean 'jax'?",
        ),
        (
            "steps: ['*']\nexpect: [{tests: ['*/*/*/mlp'], outcome: mismatch, reason: r}]",
            "3:19: expect */*/*/mlp matches nothing: the tests that it names are not in suite s",
        ),
        (
            "steps: ['*']\nexclude: [{tests: ['**/mm'], reason: r}]\n"
            "expect: [{tests: ['**/mm'], outcome: mismatch, reason: r}]",
            "4:19: expectation **/mm speaks about no test that can run: suites/s.yaml:3:20 leaves mlir/t",
        ),
        (
            "include: ['onnx/**']\nexpect: [{tests: ['onnx/**/topk'], outcome: mismatch, reason: r}]",
            "3:19: expectation onnx/**/topk speaks about no test that can run: ",
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


@pytest.mark.parametrize("outcome", ["unsupported", "skipped", "infra-error", "pass"])
def test_what_nobody_can_expect(outcome: str) -> None:
    with pytest.raises(CatalogError, match=rf"^suites/s\.yaml:3:\d+: {outcome} cannot be expected: "):
        expansion(f"steps: ['*']\nexpect: [{{tests: ['**'], outcome: {outcome}, reason: r}}]")


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


def test_everything_holds_all_tests_and_the_default_suites_expectations_for_its_own() -> None:
    smoke = (
        "blocks: [{product: {framework: [pytorch], target: [x86_64]}}]\n"
        "exclude: [{tests: ['**/softmax'], reason: slow}]\n"
        "expect: [{tests: ['pytorch/**'], outcome: mismatch, reason: known}]"
    )
    found = everything(catalog({"smoke": smoke}))
    assert list(found.ids()) == brute.everything(CATALOG)
    expected = {test.id for test in found.tests() if test.expectation}
    pipelines = ("linalg-loops", "linalg-tiled", "tosa-loops")
    assert expected == {
        f"pytorch/{pipeline}/x86_64/{workload}" for pipeline in pipelines for workload in ("mlp", "topk")
    }


def test_everything_needs_no_suite() -> None:
    found = everything(CATALOG)
    test = found.test("jax/linalg-loops/wasm/topk")
    assert test is not None
    assert (test.selected, test.reason, test.expectation) == (True, "in the catalog", None)
    assert found.test("jax/linalg-loops/wasm/none") is None
