"""What the arguments of a command mean, and what is said about those that mean nothing."""

from __future__ import annotations

import pytest
from catalogs import catalog
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.errors import UsageError
from mlir_matrix.names import TestGlob
from mlir_matrix.select import choose, is_suite

SUITES = {
    "smoke": (
        "blocks: [{product: {framework: [pytorch, onnx], pipeline: [linalg-loops], target: [x86_64]}}]\n"
        "steps: ['*']\n"
        "exclude: [{tests: ['**/softmax'], reason: slow}]\n"
        "expect: [{tests: ['pytorch/**/mlp'], outcome: mismatch, reason: known}]"
    ),
    "jax": "blocks: [{product: {framework: [jax, pytorch], pipeline: [linalg-loops], target: [x86_64]}}]",
}
CATALOG = catalog(SUITES)


def ids(*arguments: str) -> list[str]:
    return list(choose(CATALOG, arguments).ids())


def refused(*arguments: str) -> str:
    with pytest.raises(UsageError) as caught:
        choose(CATALOG, arguments)
    return str(caught.value)


def test_nothing_means_the_default_suite() -> None:
    assert ids() == ids("smoke")
    assert ids() == [
        "pytorch/linalg-loops/x86_64/mlp",
        "pytorch/linalg-loops/x86_64/topk",
        "onnx/linalg-loops/x86_64/mlp",
        "onnx/linalg-loops/x86_64/topk",
        "mlir/tile/ir/mm",
        "mlir/torch-to-linalg/ir/add",
        "mlir/torch-to-linalg/ir/mm",
    ]


def test_suites_are_united_and_the_first_owns_a_test() -> None:
    choice = choose(CATALOG, ["jax", "smoke"])
    found = list(choice.ids())
    assert len(found) == len(set(found)) == choice.count()
    assert set(found) == set(ids("jax")) | set(ids("smoke"))
    assert [test.id for test in choice.tests()] == found
    test = choice.test("pytorch/linalg-loops/x86_64/mlp")
    assert test is not None
    assert test.reason == "in by suites/jax.yaml:2:10"
    assert test.expectation is None


def test_what_one_suite_leaves_out_and_another_has_is_in() -> None:
    found = list(choose(CATALOG, ["smoke", "jax"]).tests(excluded=True))
    out = [test.id for test in found if test.excluded]
    assert out == ["onnx/linalg-loops/x86_64/softmax"]
    assert len({test.id for test in found}) == len(found)


def test_globs_select_within_the_suites_that_are_named() -> None:
    assert ids("smoke", "pytorch/**") == ["pytorch/linalg-loops/x86_64/mlp", "pytorch/linalg-loops/x86_64/topk"]
    assert ids("pytorch/**", "smoke") == ids("smoke", "pytorch/**")


def test_globs_alone_select_from_the_whole_catalog() -> None:
    assert len(ids("pytorch/**")) == 3 * 3 * 3
    assert ids("jax/linalg-loops/wasm/mlp") == ["jax/linalg-loops/wasm/mlp"]


def test_globs_are_united_in_the_catalogs_order() -> None:
    assert ids("**/wasm/topk", "jax/*/wasm/*") == [
        identifier
        for identifier in ids("**")
        if TestGlob("**/wasm/topk").matches(identifier) or TestGlob("jax/*/wasm/*").matches(identifier)
    ]


def test_a_test_outside_suites_keeps_what_the_default_suite_expects_of_it() -> None:
    found = {test.id: test.expectation for test in choose(CATALOG, ["pytorch/*/*/mlp"]).tests()}
    assert {identifier for identifier, expectation in found.items() if expectation} == {
        "pytorch/linalg-loops/x86_64/mlp"
    }


def test_a_glob_takes_unsupported_tests_along_with_their_reason() -> None:
    found = list(choose(CATALOG, ["onnx/linalg-loops/x86_64/t*"]).tests())
    assert [(test.id, test.outcome, test.reason) for test in found] == [
        ("onnx/linalg-loops/x86_64/topk", "unsupported", "onnx cannot express topk: its order is not defined")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoek"], "there is no suite 'smoek'; did you mean 'smoke'?"),
        (["pytorch"], "there is no suite 'pytorch', but a framework; for its tests say 'pytorch/*/*/*'"),
        (["linalg-loops"], "there is no suite 'linalg-loops', but a pipeline; for its tests say '*/linalg-loops/*/*'"),
        (["mlp"], "there is no suite 'mlp', but a workload; for its tests say '*/*/*/mlp'"),
        (["pytorch*"], "perhaps 'pytorch*/**'"),
        (["pytorch/linalg-loops"], "perhaps 'pytorch/linalg-loops/**'"),
        (["jax/linalg-lops/x86_64/mlp"], "there is no pipeline 'linalg-lops'; did you mean 'linalg-loops'?"),
        (["jax/linalg-loops/x86_64/mpl"], "there is no test 'jax/linalg-loops/x86_64/mpl': there is no workload 'mpl'"),
        (["jax/linalg-loops/ir/mlp"], "the catalog has no test with this combination"),
        (["onnx/linalg-loops/x86_64/topk"], "is unsupported: onnx cannot express topk: its order is not defined"),
        (["jax/tosa-loops/x86_64/mlp"], "is unsupported: jax emits stablehlo; tosa-loops takes"),
        (
            ["smoke", "onnx/linalg-loops/x86_64/softmax"],
            "is not run: left out by suites/smoke.yaml:4:20: slow",
        ),
        (
            ["smoke", "jax/linalg-loops/x86_64/mlp"],
            "of suite smoke: the catalog has it, the suite does not; name it without the suite",
        ),
        (["jax/q*/**"], "'jax/q*/**' matches no test: no pipeline matches 'q*'"),
        (["smoke", "**/softmax"], "'**/softmax' matches no test of suite smoke"),
        (["smoke", "jax/**"], "'jax/**' matches no test of suite smoke"),
        (["a[/b/c/d"], "'a['"),
        (["a/b/c/d e"], "not a pattern"),
        (["../x/y/z"], "there is no framework '..'"),
        ([""], "there is no suite ''"),
    ],
)
def test_what_names_nothing_is_refused(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_one_wrong_glob_among_right_ones_is_refused() -> None:
    assert "q" in refused("pytorch/**", "q/**")


def test_without_the_default_suite_one_must_be_named() -> None:
    with pytest.raises(UsageError, match="no suite 'smoke'"):
        choose(catalog({"jax": SUITES["jax"]}))
    assert choose(catalog({"jax": SUITES["jax"]}), ["jax"]).count() == 6
    assert choose(catalog(), ["jax/**"]).count() == 27


@given(st.text(alphabet="abjx*?[]{}/!-_.~ \n\x1b$", max_size=12))
def test_any_argument_chooses_tests_or_is_refused(argument: str) -> None:
    try:
        choice = choose(CATALOG, [argument])
    except UsageError as refusal:
        message = str(refusal)
    else:
        message = ""
        assert choice.count() > 0
    assert "\x1b" not in message


@pytest.mark.parametrize(("argument", "expected"), [("smoke", True), ("a/b", False), ("smo*", False), ("a{b", False)])
def test_what_is_a_suite(argument: str, expected: bool) -> None:
    assert is_suite(argument) is expected
