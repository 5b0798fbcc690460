"""What toolchains say, and what recipes and workloads say of releases: each wrong thing with its place and sentence."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from mlir_matrix.base.errors import CatalogError

LLVM = "toolchains/components/llvm.yaml"
TORCH = "toolchains/environments/torch.yaml"
KNOWN = "toolchains/known-good.yaml"
TOSA = "recipes/steps/torch-to-tosa/step.yaml"
MLP = "matrix/workloads/mlp/workload.yaml"


DIGEST = "0123456789abcdef" * 4
PASSED = f"{{suite: smoke, as_expected: 3, total: 3, outcomes: {DIGEST}, date: '2026-10-01'}}"


def test_what_a_known_good_set_passed_is_remembered(tree: Any) -> None:
    tree.edit(KNOWN, "pins:", f"passed: [{PASSED}]\npins:")
    (known,) = tree.load().known_good
    assert (known.document.passed[0].suite, known.document.passed[0].outcomes) == ("smoke", DIGEST)
    tree.edit(KNOWN, DIGEST, DIGEST.upper())
    (error,) = tree.errors()
    assert error.startswith(f"{KNOWN}:1:")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("suite: smoke", "suite: smoek", "1:11: there is no suite 'smoek'; did you mean 'smoke'?"),
        ("as_expected: 3", "as_expected: 4", "1:25: 4 of 3 tests cannot have ended as expected"),
        ("as_expected: 3", "as_expected: -1", "1:25: -1 of 3 tests cannot have ended as expected"),
        ("total: 3", "total: -3", "1:25: 3 of -3 tests cannot have ended as expected"),
        ("2026-10-01", "2026-02-29", "1:127: '2026-02-29' is not a valid date"),
        ("2026-10-01", "0000-01-01", "1:127: '0000-01-01' is not a valid date"),
    ],
)
def test_what_no_set_can_have_passed(tree: Any, old: str, new: str, error: str) -> None:
    tree.edit(KNOWN, "pins:", f"passed: [{PASSED.replace(old, new)}]\npins:")
    (found,) = tree.errors()
    assert found == f"{KNOWN}:{error}"


def test_pins_of_an_environment_are_of_its_components_and_what_these_are_built_with(tree: Any) -> None:
    tree.write("toolchains/environments/iree.yaml", "description: built\ncomponents: [iree]\n")
    tree.edit(KNOWN, "{llvm: 18.1.8}", '{llvm: 18.1.8}\n  iree: {llvm: 18.1.8, torch-mlir: "20260901"}')
    assert tree.errors() == [f"{KNOWN}:6:24: environment 'iree' has no component 'torch-mlir'"]
    tree.edit(KNOWN, ', torch-mlir: "20260901"', "")
    assert tree.load().default_pins("iree")["llvm"] == "18.1.8"


def test_a_workload_may_need_what_not_every_environment_on_its_route_has(tree: Any) -> None:
    tree.edit(MLP, "component: llvm", "component: iree")
    assert tree.load().workloads["mlp"].document.requires[0].component == "iree"


@pytest.mark.parametrize(("components", "releases", "variants"), [(9, 9, 9), (1, 900, 900), (3, 30, 30)])
def test_many_variants_are_checked_soon(tree: Any, components: int, releases: int, variants: int) -> None:
    names = [f"c{index}" for index in range(components)]
    listed = "".join(f"  - {{release: '{index}'}}\n" for index in range(releases))
    for name in names:
        tree.write(f"toolchains/components/{name}.yaml", f"description: d\nreleases:\n{listed}")
    tree.edit(TORCH, "llvm]", f"llvm, {', '.join(names)}]")
    lines = [", ".join(f"{name}: '>={index}'" for name in names) for index in range(variants)]
    text = (tree.path / TOSA).read_text().partition("variants:")[0]
    tree.write(TOSA, text + "variants:\n" + "".join(f"  - {{when: {{{line}}}}}\n" for line in lines))
    started = time.monotonic()
    with contextlib.suppress(CatalogError):
        tree.load()
    assert time.monotonic() - started < 60


def test_a_release_may_come_from_elsewhere_than_its_component(tree: Any) -> None:
    tree.edit(LLVM, "suites: [trixie]", "provider: pypi, bindings: mlir")
    tree.edit(LLVM, "suites: [bookworm, trixie]", "provider: host, programs: [mlir-opt]")
    releases = tree.load().components["llvm"].document.releases
    assert [release.provider for release in releases] == ["pypi", "host", None]


def test_environments_without_components_need_no_toolchain(tree: Any) -> None:
    tree.write("toolchains/environments/python.yaml", "description: the interpreter alone\n")
    assert tree.load().environments["python"].document.components == ()


def test_a_range_of_very_many_digits(tree: Any) -> None:
    tree.edit(TOSA, "{llvm: '>=19'}", f"{{llvm: '{'9' * 5000}'}}")
    (error,) = tree.errors()
    assert error.startswith(f"{TOSA}:7:13: '{'9' * 198}")
