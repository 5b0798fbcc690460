"""What toolchains say, and what recipes and workloads say of releases: each wrong thing with its place and sentence."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from mlir_matrix.base.errors import CatalogError

LLVM = "toolchains/components/llvm.yaml"
IREE = "toolchains/components/iree.yaml"
TORCH = "toolchains/environments/torch.yaml"
KNOWN = "toolchains/known-good.yaml"
TOSA = "recipes/steps/torch-to-tosa/step.yaml"
TILE = "recipes/steps/tile/step.yaml"
MLP = "matrix/workloads/mlp/workload.yaml"
COMMIT = "needs a 'commit' to be built from, with all of its 40 digits 0-9a-f"
RANGES = "is no range of releases; write a range like '>=18,<22' or '19.1'"


@pytest.mark.parametrize(
    ("file", "old", "new", "errors"),
    [
        (TORCH, "[torch-mlir, llvm]", "[torch-mlir, llvm, torchmlir]", [
            "2:32: there is no component 'torchmlir'; did you mean 'torch-mlir'?",
        ]),
        (LLVM, "release: 24.0.0-dev", "release: dev-24", ["7:6: 'dev-24': a release's name begins with its number"]),
        (LLVM, "release: 24.0.0-dev", "release: 18.1.8", [
            "5:6: the release '18.1.8' is listed twice",
            "7:6: the release '18.1.8' is listed twice",
        ]),
        (LLVM, "{release: 18.1.8, suites: [trixie]}", "{release: 18.1.8}", [
            "5:5: the release '18.1.8' needs 'suites': the provider is deb",
        ]),
        (LLVM, 'packages: [', 'in_place: true\npackages: [', [
            "3:1: there is no component 'patchelf'; known: iree, llvm, torch-mlir",
        ]),
        (LLVM, 'packages: [', 'finish: bazel\npackages: [', [
            "3:1: needs 'in_place: true': it patches a prefix in its final folder",
        ]),
        (LLVM, 'packages: ["mlir-{major}-tools"]\n', "", ["1:1: the key 'packages' is missing; the provider deb needs it"]),
        (LLVM, '["mlir-{major}-tools"]', "[$(id)]", [
            "3:12: '$(id)' is not the name of a Debian package (small letters, digits, '+', '-', '.', and '{major}' or '{minor}')",
        ]),
        (LLVM, '["mlir-{major}-tools"]', "[mlir]\nprograms: [usr/../../bin]", [
            "4:12: 'usr/../../bin' is not a folder of the prefix such as 'usr/bin', or the name of a program; "
            "no part of it may begin with a dot",
        ]),
        (LLVM, 'packages: [', 'reads: {link: [usr/**, ../secrets]}\npackages: [', [
            "3:24: '../secrets' is not a file of the component's folder, or some, such as 'ziglang/zig' or 'ziglang/lib/**'; "
            "no part of it may begin with a dot",
        ]),
        (LLVM, "suites: [trixie]", "provider: source", [
            "1:1: the key 'build' is missing; the provider source needs it",
            f"5:5: the release '18.1.8' {COMMIT}",
        ]),
        (IREE, ", commit: 0123456789abcdef0123456789abcdef01234567", "", [f"6:12: the release '3.8.0' {COMMIT}"]),
        (IREE, "commit: 0123456789abcdef0123456789abcdef01234567", "commit: v3.8.0", [f"6:12: the release '3.8.0' {COMMIT}"]),
        (IREE, "provider: source", "provider: host", [
            "6:12: the release '3.8.0' needs 'programs' to look for: the provider is host",
        ]),
        (IREE, "{llvm: {", "{lvm: {", ["5:11: there is no component 'lvm'; did you mean 'llvm'?"]),
        (IREE, "provider: source", "provider: deb", [
            "1:1: the key 'packages' is missing; the provider deb needs it",
            "6:12: the release '3.8.0' needs 'suites': the provider is deb",
        ]),
        (KNOWN, "  llvm: 19.1.7", "  lvm: 19.1.7", ["3:3: there is no component 'lvm'; did you mean 'llvm'?"]),
        (KNOWN, "  llvm: 19.1.7", "  llvm: 19.1.6", ["3:3: llvm has no release '19.1.6'; did you mean '19.1.7'?"]),
        (KNOWN, "  llvm: 19.1.7", "  llvm: '19'", ["3:3: llvm has no release '19'; known: 18.1.8, 19.1.7, 24.0.0-dev"]),
        (KNOWN, "  torch: {", "  toch: {", ["5:3: there is no environment 'toch'; did you mean 'torch'?"]),
        (KNOWN, "{llvm: 18.1.8}", "{llvm: 18.1.9}", ["5:11: llvm has no release '18.1.9'; did you mean '18.1.8'?"]),
        (KNOWN, "{llvm: 18.1.8}", "{llm: 18.1.8}", ["5:11: there is no component 'llm'; did you mean 'llvm'?"]),
        (TOSA, "{llvm: '>=19'}", "{llvm: '=>19'}", [f"7:13: '=>19' {RANGES}"]),
        (TOSA, "{llvm: '>=19'}", "{llvm: '>=19,'}", [f"7:13: '' {RANGES}"]),
        (TOSA, "{llvm: '>=19'}", "{llvm: '>=19, <2a'}", [f"7:13: '<2a' {RANGES}"]),
        (TOSA, "{llvm: '>=19'}", f"{{llvm: '{'9' * 5000}'}}", [f"7:13: '{'9' * 198}…"]),
        (TOSA, "{llvm: '>=19'}", "{lvm: '>=19'}", ["7:13: there is no component 'lvm'; did you mean 'llvm'?"]),
        (TOSA, "{llvm: '>=19'}", "{iree: '>=3'}", ["7:13: environment 'torch' has no component 'iree'"]),
        (TOSA, "{when: {llvm: '>=19'}}", "{passes: p}", ["7:5: one of the keys 'when' and 'carries' is missing"]),
        (TOSA, "{when: {llvm: '>=19'}}", "{carries: {iree: hal, lvm: x}}", [
            "7:16: environment 'torch' has no component 'iree'",
            "7:16: no release of iree carries 'hal'",
            "7:27: there is no component 'lvm'; did you mean 'llvm'?",
        ]),
        (TILE, "releases: '>=2026'", "releases: '>2026.x'", [f"11:29: '>2026.x' {RANGES}"]),
        (TILE, "component: torch-mlir", "component: torchmlir", [
            "11:6: there is no component 'torchmlir'; did you mean 'torch-mlir'?",
        ]),
        (TILE, "component: torch-mlir, releases: '>=2026', carries: stablehlo", "component: iree, releases: '>=3'", [
            "11:6: environment 'torch' has no component 'iree'",
        ]),
        (TILE, "releases: '>=2026', carries: stablehlo, ", "", ["11:5: one of the keys 'releases' and 'carries' is missing"]),
        (TOSA, "{llvm: '>=19'}", "{llvm: '>=18,<17'}", [
            "7:13: no release of llvm is in '>=18,<17', so this variant never applies",
        ]),
        (TOSA, "{llvm: '>=19'}", "{llvm: '20'}", ["7:13: no release of llvm is in '20', so this variant never applies"]),
        (TOSA, "{llvm: '>=19'}", "{llvm: '>=18'}", [
            f"8:5: this variant never applies: for each release that it matches, {TOSA}:7:5 comes first",
        ]),
        (TOSA, "{llvm: '18', torch-mlir: '>=2026'}", "{llvm: '24'}", [
            f"8:5: this variant never applies: for each release that it matches, {TOSA}:7:5 comes first",
        ]),
        (TOSA, "{llvm: '18', torch-mlir: '>=2026'}", "{torch-mlir: '20260901'}, carries: {torch-mlir: stablehlo}", [
            "8:13: no release of torch-mlir is in '20260901' and carries 'stablehlo', so this variant never applies",
        ]),
        (TOSA, "passes: torch-to-old-tosa}", "passes: old}\n  - {when: {llvm: '18', torch-mlir: '20261001'}}", [
            f"9:5: this variant never applies: for each release that it matches, {TOSA}:8:5 comes first",
        ]),
        (TOSA, "passes: torch-to-old-tosa}", "passes: old}\n  - {carries: {torch-mlir: stablehlo}}", [
            f"9:5: this variant never applies: for each release that it matches, {TOSA}:7:5 or {TOSA}:8:5 comes first",
        ]),
        (MLP, "releases: '!=18.1.0'", "releases: 'not 18'", [f"9:30: 'not 18' {RANGES}"]),
        (MLP, "component: llvm", "component: lvm", ["9:13: there is no component 'lvm'; did you mean 'llvm'?"]),
        (MLP, "releases: '!=18.1.0', ", "", ["9:12: one of the keys 'releases' and 'carries' is missing"]),
    ],
)  # fmt: skip
def test_toolchain_errors(tree: Any, file: str, old: str, new: str, errors: list[str]) -> None:
    tree.edit(file, old, new)
    found = [error.removeprefix(f"{file}:") for error in tree.errors()]
    assert [
        line[: len(error)] if error.endswith("…") else line for line, error in zip(found, errors, strict=True)
    ] == errors


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
