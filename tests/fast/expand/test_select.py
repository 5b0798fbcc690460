"""What the arguments of a command mean, and what is said about those that mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import TestGlob
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.routes import Argument
from mlir_matrix.expand.select import choose, granted, is_identifier, is_suite
from support.catalogs import catalog

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
#: A catalog whose default suite varies a component.
VARIED = catalog(
    {
        "smoke": (
            "blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64]}, pins: {llvm: ['18', '22']}}]\n"
            "steps: [tile]\n"
            "exclude: [{tests: ['**/topk@llvm=18'], reason: slow}]\n"
            "expect: [{tests: ['**/mlp@llvm=22'], outcome: mismatch, reason: known}]"
        ),
        "plain": "blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64], workload: [mlp]}}]",
    }
)
CELL = "jax/linalg-loops/x86_64"


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


def test_expectations_of_the_default_suite_apply_to_all_tests_that_they_match() -> None:
    tests = list(choose(CATALOG, ["*/linalg-loops/*/{mlp,softmax}"]).tests())
    expected = {test.id for test in tests if test.expectation}
    assert expected == {f"pytorch/linalg-loops/{target}/mlp" for target in ("x86_64", "wasm")}


def test_a_glob_takes_unsupported_tests_along_with_their_reason() -> None:
    found = list(choose(CATALOG, ["onnx/linalg-loops/x86_64/t*"]).tests())
    assert [(test.id, test.outcome, test.reason) for test in found] == [
        ("onnx/linalg-loops/x86_64/topk", "unsupported", "onnx cannot express topk: its order is not defined")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoek"], "there is no suite 'smoek'; did you mean 'smoke'?"),
        (["pytorch"], "there is no suite 'pytorch', but a framework; select its tests by 'pytorch/*/*/*'"),
        (
            ["linalg-loops"],
            "there is no suite 'linalg-loops', but a pipeline; select its tests by '*/linalg-loops/*/*'",
        ),
        (["mlp"], "there is no suite 'mlp', but a workload; select its tests by '*/*/*/mlp'"),
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
            "of suite smoke: the catalog has it, but the suite does not; name it without the suite",
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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["mlp@llvm=18", "softmax@llvm=18", "mlp@llvm=22", "softmax@llvm=22", "topk@llvm=22", "mm"]),
        (("smoke", "**@llvm=18"), ["mlp@llvm=18", "softmax@llvm=18"]),
        (("smoke", "**/mlp"), ["mlp@llvm=18", "mlp@llvm=22"]),
        (("smoke", f"{CELL}/mlp"), ["mlp@llvm=18", "mlp@llvm=22"]),
        (("smoke", f"{CELL}/topk"), ["topk@llvm=22"]),
        (("smoke", f"{CELL}/mlp@llvm=22"), ["mlp@llvm=22"]),
        (("smoke", f"{CELL}/mlp@llvm=22.1.8"), ["mlp@llvm=22"]),
        (("smoke", "**@llvm=18.1"), ["mlp@llvm=18", "softmax@llvm=18"]),
        (("smoke", "**/mlp@llvm=*"), ["mlp@llvm=18", "mlp@llvm=22"]),
        (("smoke", "**/mlp@{llvm=18,llvm=19}"), ["mlp@llvm=18"]),
        (("smoke", "**/m*"), ["mlp@llvm=18", "mlp@llvm=22", "mm"]),
        ((f"{CELL}/mlp",), ["mlp"]),
        ((f"{CELL}/*",), ["mlp", "softmax", "topk"]),
        ((f"{CELL}/mlp@llvm=16",), ["mlp@llvm=16"]),
        ((f"{CELL}/mlp@llvm=16", f"{CELL}/t*"), ["topk", "mlp@llvm=16"]),
        ((f"{CELL}/mlp@llvm=16", f"{CELL}/mlp@llvm=19"), ["mlp@llvm=16", "mlp@llvm=19"]),
        ((f"{CELL}/*@llvm=16,ziglang=0.16",), [f"{name}@llvm=16,ziglang=0.16" for name in ("mlp", "softmax", "topk")]),
        ((f"{CELL}/mlp@ziglang=0.16,llvm=16",), ["mlp@llvm=16,ziglang=0.16"]),
        ((f"{CELL}/mlp@llvm=22.1.8",), ["mlp@llvm=22"]),
        ((f"{CELL}/mlp@llvm=16.0.6", f"{CELL}/topk@llvm=16"), ["mlp@llvm=16.0.6", "topk@llvm=16.0.6"]),
        ((f"{CELL}/mlp@llvm=16.0.6", f"{CELL}/mlp@llvm=16"), ["mlp@llvm=16.0.6"]),
        ((f"{CELL}/mlp@llvm=1[6789]",), [f"mlp@llvm={each}" for each in (16, 17, 18, 19)]),
        ((f"{CELL}/mlp@llvm=18.*",), ["mlp@llvm=18"]),
        ((f"{CELL}/mlp@llvm=16.0.6", f"{CELL}/mlp@llvm=1[67]"), ["mlp@llvm=16.0.6", "mlp@llvm=17"]),
        (
            (f"{CELL}/mlp@ziglang=0.1[67],llvm={{16,17}}",),
            [f"mlp@llvm={one},ziglang={other}" for other in ("0.16", "0.17") for one in (16, 17)],
        ),
        (("mlir/tile/ir/mm@llvm=*",), [f"mm@llvm={each}" for each in (16, 17, 18, 19, 22)]),
        (("mlir/tile/ir/mm@llvm=18", "mlir/tile/ir/*"), ["mm", "mm@llvm=18"]),
        (("plain", "smoke", "**/mlp"), ["mlp", "mlp@llvm=18", "mlp@llvm=22"]),
    ],
)
def test_pins_in_identifiers_and_globs(arguments: tuple[str, ...], expected: list[str]) -> None:
    choice = choose(VARIED, arguments)
    assert [identifier.rsplit("/", 1)[1] for identifier in choice.ids()] == expected
    assert [test.id for test in choice.tests()] == list(choice.ids())
    assert choice.count() == len(expected)


def test_an_identifier_outside_a_suite_pins_the_component_of_that_test() -> None:
    (test,) = choose(VARIED, [f"{CELL}/mlp@llvm=16"]).tests()
    assert test.route is not None
    assert {step.resolved_step.environment for step in test.route.steps} == {"e@llvm=16.0.6"}
    (test,) = choose(VARIED, [f"{CELL}/mlp@llvm=16"], pins=Pins(VARIED, {"llvm": "17.0.6"})).tests()
    assert test.route is not None
    assert {step.resolved_step.environment for step in test.route.steps} == {"e@llvm=16.0.6"}


def test_a_test_of_a_choice_is_found_however_its_pins_are_spelled() -> None:
    test = choose(VARIED, ["smoke"]).test(f"{CELL}/mlp@llvm=22.1.8")
    assert test is not None
    assert test.id == f"{CELL}/mlp@llvm=22"


def test_an_identifier_keeps_what_the_default_suite_expects_of_it() -> None:
    found = choose(VARIED, [f"{CELL}/mlp@llvm=22", f"{CELL}/mlp@llvm=18", f"{CELL}/mlp"]).tests()
    assert {test.id.rsplit("/", 1)[1]: bool(test.expectation) for test in found} == {
        "mlp": False,
        "mlp@llvm=22": True,
        "mlp@llvm=18": False,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoke", f"{CELL}/mlp@llvm=19"], "of suite smoke: the suite has no such tests with these pins"),
        (["smoke", "**@llvm=19"], "'**@llvm=19' matches no test of suite smoke: the suite has no such tests with these pins"),
        (["smoke", "**@ziglang=*"], "matches no test of suite smoke: the suite has no such tests with these pins"),
        (["smoke", "jaxx/**@llvm=18"], "matches no test of suite smoke: there is no framework 'jaxx'"),
        (["smoke", f"{CELL}/topk@llvm=18"], "topk@llvm=18 is not run: left out by suites/smoke.yaml:4:20: slow"),
        ([f"{CELL}/mlp@llvm=99"], "llvm has no release '99'; it has 16.0.6, 17.0.6, 18.1.8, 19.1.7, 22.1.8"),
        ([f"{CELL}/mlp@lvm=18"], "there is no component 'lvm'; did you mean 'llvm'?"),
        ([f"{CELL}/mlp@llvm=18,llvm=19"], "llvm is pinned twice, to 18.1.8 and to 19.1.7"),
        ([f"{CELL}/mlp@onnx=1.22"], "mlp@onnx=1.22 is unsupported: nothing on the route of this cell uses onnx"),
        ([f"{CELL}/softmax@llvm=17"], "workload softmax needs llvm !=17, but llvm 17.0.6 is pinned: it has no exp"),
        (["**@{llvm=18,llvm=22}"], "'**@{llvm=18,llvm=22}': expected COMPONENT=GLOB after the '@', e.g. llvm=1*"),
        (["**@llvm=18,onnx=*,lvm=1"], "there is no component 'lvm'; did you mean 'llvm'?"),
        (["**@llvm=9*"], "llvm has no release '9*'; it has 16.0.6, 17.0.6, 18.1.8, 19.1.7, 22.1.8"),
        ([f"{CELL}/mlp@"], "has no COMPONENT=RELEASE after its '@'"),
        ([f"{CELL}/mlp@llvm"], "expected COMPONENT=RELEASE, e.g. llvm=19"),
        (["smoke", f"{CELL}/mlp@llvm"], "has no COMPONENT=RELEASE after its '@'"),
        (["mlir/tile/ir/mm@llvm=17"], "mm@llvm=17 is unsupported: step tile has no variant for llvm 17.0.6"),
        (["mlir/tile/ir/mm@llvm=18,onnx=1.22"], "is unsupported: step tile does not use onnx"),
        (["smoke@llvm=18"], "'smoke@llvm=18' has 1 part"),
    ],
)  # fmt: skip
def test_pins_that_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(VARIED, arguments)
    assert message in str(caught.value)


def test_what_the_suite_varies_is_pinned_by_a_glob() -> None:
    pins = Pins(VARIED, {"llvm": "18.1.8"})
    for arguments in ([], ["smoke"], ["plain", "smoke"], ["smoke", "**/mlp"]):
        with pytest.raises(UsageError, match=r"choose some by a glob: smoke '\*\*@llvm=18'"):
            choose(VARIED, arguments, pins=pins)
    for arguments in (["plain"], [f"{CELL}/mlp"], [f"{CELL}/m*"]):
        (test,) = choose(VARIED, arguments, pins=pins).tests()
        assert test.route is not None
        assert (test.id, test.route.steps[0].resolved_step.environment) == (f"{CELL}/mlp", "e@llvm=18.1.8")


def test_one_wrong_glob_among_right_ones_is_refused() -> None:
    assert "q" in refused("pytorch/**", "q/**")


def test_without_the_default_suite_one_must_be_named() -> None:
    with pytest.raises(UsageError, match="no suite 'smoke'"):
        choose(catalog({"jax": SUITES["jax"]}))
    assert choose(catalog({"jax": SUITES["jax"]}), ["jax"]).count() == 6
    assert choose(catalog(), ["jax/**"]).count() == 27


@given(st.text(alphabet="abjx*?[]{}/!-_.~@=, \n\x1b$", max_size=12))
def test_any_argument_chooses_tests_or_is_refused(argument: str) -> None:
    try:
        choice = choose(CATALOG, [argument])
    except UsageError as refusal:
        message = str(refusal)
    else:
        message = ""
        assert choice.count() > 0
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("smoke", True), ("a/b", False), ("smo*", False), ("a{b", False), ("a@b=1", False)],
)
def test_what_is_a_suite(argument: str, expected: bool) -> None:
    assert is_suite(argument) is expected


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("a/b/c/d", True), ("a/b/c/d@x=1", True), ("a/b/c/*", False), ("a/**", False), ("a/b/c/d@x=*", False)],
)
def test_what_is_an_identifier(argument: str, expected: bool) -> None:
    assert is_identifier(argument) is expected


STATING = """\
blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [wasm], workload: [mlp]}, pins: {PINS}}]
properties: [{tests: ['**'], scaling: {inputs: {x: 2}}, reason: r}]
"""
PLAIN = "blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [wasm], workload: [mlp, topk]}}]\n"


def stating(pins: str = "") -> Catalog:
    return catalog({"smoke": PLAIN, "stated": STATING.replace("PINS", pins)})


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["stated"], ["jax/linalg-loops/wasm/mlp", "jax/linalg-loops/wasm/mlp~scaling"]),
        (["stated", "**"], ["jax/linalg-loops/wasm/mlp"]),
        (["stated", "**~sc*"], ["jax/linalg-loops/wasm/mlp~scaling"]),
        (["**~scaling"], ["jax/linalg-loops/wasm/mlp~scaling"]),
        (["jax/linalg-loops/wasm/mlp~scaling"], ["jax/linalg-loops/wasm/mlp~scaling"]),
        (["jax/linalg-loops/wasm/{mlp,topk}", "jax/**~*"],
         ["jax/linalg-loops/wasm/mlp", "jax/linalg-loops/wasm/topk", "jax/linalg-loops/wasm/mlp~scaling"]),
    ],
)  # fmt: skip
def test_properties_are_those_that_suites_state(arguments: list[str], found: list[str]) -> None:
    choice = choose(stating(), arguments)
    assert list(choice.ids()) == found
    assert [test.id for test in choice.tests()] == found
    assert choice.count() == len(found)


def test_a_glob_over_devices_needs_one_of_them() -> None:
    entry = CATALOG.targets["x86_64"]
    document = entry.document.model_copy(update={"devices": ("/dev/nvidia*",)})
    needing = replace(CATALOG, targets={**CATALOG.targets, "x86_64": replace(entry, document=document)})
    tests = list(choose(needing, ["smoke"]).tests())
    assert all(test.outcome != "skipped" for test in granted(needing, tests, ("/dev/nvidia3",), lambda: "x86-64-v4"))
    reasons = {
        test.reason for test in granted(needing, tests, ("/dev/dri",), lambda: "x86-64-v4") if test.outcome == "skipped"
    }
    said = "target x86_64 needs /dev/nvidia*, which is not granted; matrix run --device '/dev/nvidia*' grants it"
    assert said in reasons


def test_what_needs_a_device_that_is_not_granted_is_skipped() -> None:
    entry = CATALOG.targets["x86_64"]
    document = entry.document.model_copy(update={"devices": ("/dev/a", "/dev/b")})
    needing = replace(CATALOG, targets={**CATALOG.targets, "x86_64": replace(entry, document=document)})
    tests = list(choose(needing, ["smoke"]).tests())

    def reasons(*devices: str) -> dict[str, str]:
        found = {test.id: test for test in granted(needing, tests, devices, lambda: "x86-64-v4")}
        return {name: test.reason for name, test in found.items() if test.outcome == "skipped" and not test.selected}

    assert reasons("/dev/a", "/dev/b") == {}
    needs = "target x86_64 needs /dev/b, which is not granted; matrix run --device /dev/b grants it"
    assert reasons("/dev/a") == {test.id: needs for test in tests if test.selected and not test.is_ir}
    assert (
        "/dev/a and /dev/b, which are not granted; matrix run --device /dev/a --device /dev/b grants them"
        in (reasons()["onnx/linalg-loops/x86_64/mlp"])
    )


def test_pins_come_last() -> None:
    own = stating("llvm: ['18']")
    assert list(choose(own, ["**~scaling@llvm=18"]).ids()) == ["jax/linalg-loops/wasm/mlp~scaling@llvm=18"]
    # A suite that runs over the releases of what is pinned has nothing to say.
    with pytest.raises(UsageError, match="matches no test"):
        choose(own, ["**~scaling"], pins=Pins(own, {"llvm": "22.1.8"}))


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("**~scalng", "there is no property 'scalng'; did you mean 'scaling'?"),
        ("jax/linalg-loops/wasm/topk~scaling", "no suite states this property for such a test"),
        ("stated~scaling", "'stated~scaling' has 1 part, but a test is framework/pipeline/target/workload"),
    ],
)
def test_properties_that_there_are_not(argument: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(stating(), [argument])
    assert says in str(caught.value)


def test_code_for_a_newer_cpu_is_skipped_but_not_under_an_emulator() -> None:
    tests = list(choose(CATALOG, ["smoke"]).tests())
    test = next(each for each in tests if each.selected and each.route and not each.is_ir)
    assert test.route is not None
    cpu = Argument("cpu", "x86-64-v4", "f:1:1", default=False)
    newer = replace(test, route=replace(test.route, steps=(replace(test.route.steps[-1], arguments=(cpu,)),)))

    def outcome(level: str, catalog: Catalog = CATALOG) -> tuple[str | None, str]:
        (found,) = granted(catalog, [newer], (), lambda: level)
        return found.outcome, found.reason

    step = test.route.steps[-1].name
    why = f"step {step} generates code for x86-64-v4; the CPU of this machine has x86-64-v3"
    assert outcome("x86-64-v3") == ("skipped", why)
    assert outcome("x86-64-v4")[0] is None
    assert outcome("")[0] is None
    entry = CATALOG.targets["x86_64"]
    emulated = replace(entry, document=entry.document.model_copy(update={"runner": ("qemu-x86_64",)}))
    assert outcome("x86-64-v2", replace(CATALOG, targets={**CATALOG.targets, "x86_64": emulated}))[0] is None
    asked: list[str] = []
    list(granted(CATALOG, tests, (), lambda: asked.append("level") or ""))
    assert not asked, "nothing here has code for a level"


def test_globs_do_not_select_more_than_a_plan_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    count = choose(CATALOG, ["jax/**"]).count()
    monkeypatch.setattr("mlir_matrix.expand.select.MOST_TESTS", count)
    assert choose(CATALOG, ["jax/**"]).count() == count
    with pytest.raises(UsageError, match=rf"\*\*: \d+ tests match; a plan can have {count}, so name fewer cells"):
        choose(CATALOG, ["**"])
