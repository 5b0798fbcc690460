"""Pins: what a person asks for goes before an environment's own, that before the default; references say what differs."""

from __future__ import annotations

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.pins import Pins, find_release, read_pins, read_step_pins
from support.catalogs import catalog

#: ``codegen`` keeps to a release of its own; ``zig`` has neither.
ENVIRONMENTS = {
    "mlir": "components: [llvm, numpy]",
    "codegen": "components: [llvm]",
    "zig": "components: [ziglang]",
    "upstream": "components: [bindings, numpy]",
    "python": "{}",
}
COMPONENTS = {
    "llvm": "[{release: 18.1.8}, {release: 19.1.7}, {release: 22.1.8}, {release: 24.0.0+a.1}, {release: 24.0.0+b.2}]",
    "numpy": "[{release: 2.4.6}]",
    "ziglang": "[{release: 0.16.0}, {release: 0.17.0}, {release: 0.18.0, durability: rolling}]",
    "bindings": "[{release: '23', durability: rolling}, {release: '24', durability: rolling}]",
}
KNOWN_GOOD = "pins: {llvm: 19.1.7, numpy: 2.4.6}\nenvironments: {codegen: {llvm: 22.1.8}}"
CATALOG = catalog(environments=ENVIRONMENTS, components=COMPONENTS, known_good=KNOWN_GOOD)


def names(pins: Pins, environment: str) -> dict[str, str]:
    return {name: release.release for name, release in pins.releases(environment).items()}


@pytest.mark.parametrize(
    ("overrides", "environment", "releases", "reference"),
    [
        ({}, "mlir", {"llvm": "19.1.7", "numpy": "2.4.6"}, "mlir"),
        ({}, "codegen", {"llvm": "22.1.8"}, "codegen"),
        ({}, "zig", {"ziglang": "0.17.0"}, "zig"),
        ({}, "upstream", {"bindings": "24", "numpy": "2.4.6"}, "upstream"),
        ({}, "python", {}, "python"),
        ({"llvm": "18.1.8"}, "mlir", {"llvm": "18.1.8", "numpy": "2.4.6"}, "mlir@llvm=18.1.8"),
        ({"llvm": "18.1.8"}, "codegen", {"llvm": "18.1.8"}, "codegen@llvm=18.1.8"),
        ({"llvm": "18.1.8"}, "zig", {"ziglang": "0.17.0"}, "zig"),
        ({"llvm": "19.1.7"}, "mlir", {"llvm": "19.1.7", "numpy": "2.4.6"}, "mlir"),
        ({"llvm": "19.1.7"}, "codegen", {"llvm": "19.1.7"}, "codegen@llvm=19.1.7"),
        ({"llvm": "22.1.8"}, "codegen", {"llvm": "22.1.8"}, "codegen"),
        ({"ziglang": "0.18.0"}, "zig", {"ziglang": "0.18.0"}, "zig@ziglang=0.18.0"),
        ({"ziglang": "0.17.0"}, "zig", {"ziglang": "0.17.0"}, "zig"),
        ({"numpy": "2.4.6", "llvm": "24.0.0+b.2"}, "mlir", {"llvm": "24.0.0+b.2", "numpy": "2.4.6"}, "mlir@llvm=24.0.0+b.2"),
    ],
)  # fmt: skip
def test_which_release_counts_and_how_a_plan_names_it(
    overrides: dict[str, str], environment: str, releases: dict[str, str], reference: str
) -> None:
    pins = Pins(CATALOG, overrides)
    assert names(pins, environment) == releases
    assert list(names(pins, environment)) == list(releases), "the order of the environment's file"
    assert pins.reference(environment) == reference


def test_references_name_components_by_alphabet_and_lead_back() -> None:
    pins = Pins(CATALOG, {"numpy": "2.4.6", "llvm": "18.1.8", "bindings": "23"}, {"mlir": "upstream"})
    assert pins.reference("upstream") == "upstream@bindings=23"
    both = catalog(
        environments={"e": "components: [numpy, llvm]"}, components=COMPONENTS | {"numpy": "[{release: '1'}, {release: '2'}]"}
    )  # fmt: skip
    chosen = Pins(both, {"numpy": "1", "llvm": "18.1.8"})
    assert chosen.reference("e") == "e@llvm=18.1.8,numpy=1"
    for suffix in ("llvm=18.1.8", "llvm=18.1.8,numpy=1"):
        assert Pins(both).override(suffix).reference("e") == f"e@{suffix}"
    assert names(Pins(both).override("llvm=18.1.8,numpy=1"), "e") == names(chosen, "e")


def test_an_environment_that_stands_in_keeps_the_name_of_the_other() -> None:
    pins = Pins(CATALOG, {}, {"mlir": "upstream"})
    assert names(pins, "mlir") == {"bindings": "24", "numpy": "2.4.6"}
    assert pins.reference("mlir") == "mlir"
    assert Pins(CATALOG, {"bindings": "23"}, {"mlir": "upstream"}).reference("mlir") == "mlir@bindings=23"
    assert Pins(CATALOG, {"llvm": "18.1.8"}, {"mlir": "upstream"}).reference("mlir") == "mlir"
    found = Pins(CATALOG, {}, {"mlir": "upstream"}).override("bindings=23")
    assert names(found, "mlir") == {"bindings": "23", "numpy": "2.4.6"}


def test_an_environment_that_stands_in_keeps_to_its_own_releases() -> None:
    """Those of the other one are not its own, and are no change of it."""
    known = catalog(
        environments={"own": "components: [bindings]", "other": "components: [bindings]"},
        components=COMPONENTS,
        known_good="pins: {bindings: '24'}\nenvironments: {own: {bindings: '23'}}",
    )
    assert names(Pins(known, {}, {"other": "own"}), "other") == {"bindings": "23"}
    assert Pins(known, {}, {"other": "own"}).reference("other") == "other"
    assert names(Pins(known, {}, {"own": "other"}), "own") == {"bindings": "24"}
    assert Pins(known, {"bindings": "24"}, {"other": "own"}).reference("other") == "other@bindings=24"


def test_a_suffix_goes_before_what_was_asked_for() -> None:
    pins = Pins(CATALOG, {"llvm": "18.1.8", "ziglang": "0.16.0"}, {"mlir": "codegen"})
    more = pins.override("llvm=24,numpy=2.4.6")
    assert more.overrides == {"llvm": "24.0.0+b.2", "ziglang": "0.16.0", "numpy": "2.4.6"}
    assert more.swaps == pins.swaps
    assert pins.overrides == {"llvm": "18.1.8", "ziglang": "0.16.0"}
    assert pins.override("") is pins
    with pytest.raises(UsageError, match="llvm has no release '99'"):
        pins.override("llvm=99")


def test_releases_are_remembered_and_pins_compare_by_what_they_say() -> None:
    pins = Pins(CATALOG, {"llvm": "18.1.8"})
    assert pins.releases("mlir") is pins.releases("mlir")
    assert pins == Pins(CATALOG, {"llvm": "18.1.8"})
    assert pins != Pins(CATALOG)


@pytest.mark.parametrize(
    ("words", "pins"),
    [
        ([], {}),
        (["llvm=19.1.7"], {"llvm": "19.1.7"}),
        (["llvm=18", "ziglang=0.16"], {"llvm": "18.1.8", "ziglang": "0.16.0"}),
        (["llvm=24"], {"llvm": "24.0.0+b.2"}),
        (["llvm=24.0.0+a"], {"llvm": "24.0.0+a.1"}),
        (["llvm=18", "llvm=18.1.8"], {"llvm": "18.1.8"}),
    ],
)
def test_what_a_person_asks_for(words: list[str], pins: dict[str, str]) -> None:
    assert read_pins(CATALOG, words) == pins


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["llvm"], "--pin llvm: expected COMPONENT=RELEASE, e.g. llvm=19"),
        (["llvm="], "--pin llvm=: expected COMPONENT=RELEASE, e.g. llvm=19"),
        (["=19"], "--pin =19: expected COMPONENT=RELEASE, e.g. llvm=19"),
        ([""], "--pin : expected COMPONENT=RELEASE, e.g. llvm=19"),
        (["a\x1b[31m"], "--pin a\\x1b[31m: expected COMPONENT=RELEASE, e.g. llvm=19"),
        (["lvm=19"], "--pin: there is no component 'lvm'; did you mean 'llvm'?"),
        (["x\x1b=19"], "--pin: there is no component 'x\\x1b'; known: bindings, llvm, numpy, ziglang"),
        (["llvm=20"], "llvm has no release '20'; it has 18.1.8, 19.1.7, 22.1.8, 24.0.0+a.1, 24.0.0+b.2"),
        (["llvm=1"], "llvm has no release '1'; it has 18.1.8, 19.1.7, 22.1.8, 24.0.0+a.1, 24.0.0+b.2"),
        (["llvm=18=1"], "llvm has no release '18=1'; it has 18.1.8, 19.1.7, 22.1.8, 24.0.0+a.1, 24.0.0+b.2"),
        (["llvm=18", "llvm=19"], "--pin: llvm is pinned twice, to 18.1.8 and to 19.1.7"),
    ],
)
def test_what_cannot_be_pinned(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pins(CATALOG, words)
    assert str(caught.value) == message


def test_a_long_list_of_releases_is_cut_to_the_newest() -> None:
    releases = ", ".join(f"{{release: '{number}'}}" for number in range(1, 31))
    own = catalog(components={"many": f"[{releases}]"})
    with pytest.raises(UsageError) as caught:
        find_release(own.components["many"], "0")
    assert str(caught.value) == f"many has no release '0'; it has …, {', '.join(map(str, range(15, 31)))}"


STEPS = catalog(
    # The environment of all steps of such catalogs.
    environments={"e": ENVIRONMENTS["mlir"]},
    components=COMPONENTS,
    known_good="pins: {llvm: 19.1.7, numpy: 2.4.6}",
    steps={"lower": "accepts: [linalg]\ngives: llvm"},
)


def test_a_step_has_pins_of_its_own_and_a_reference_names_what_differs_from_the_others() -> None:
    pins = Pins(STEPS, {"llvm": "22.1.8"}, steps=read_step_pins(STEPS, ["lower:llvm=19"]))
    assert pins.of_step("other") is pins
    assert names(pins.of_step("lower"), "e")["llvm"] == "19.1.7"
    # The default release has to be named, too, because the reference is resolved with llvm 22 as the default.
    assert pins.of_step("lower").reference("e") == "e@llvm=19.1.7"
    assert pins.step_words == ["lower:llvm=19.1.7"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("lowr:llvm=19", "--pin-step: there is no step 'lowr'; did you mean 'lower'?"),
        (
            "lower:ziglang=0.17",
            "--pin-step lower:ziglang: the step does not use ziglang; its environment e has llvm and numpy",
        ),
        ("lower:llvm=99", "llvm has no release '99'; it has 18.1.8, 19.1.7, 22.1.8, 24.0.0+a.1, 24.0.0+b.2"),
        ("lower:llvm", "--pin-step lower: llvm: expected COMPONENT=RELEASE, e.g. llvm=19"),
    ],
)
def test_a_wrong_pin_of_a_step(word: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_step_pins(STEPS, [word])
    assert str(error.value) == said
