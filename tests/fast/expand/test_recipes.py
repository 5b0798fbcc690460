"""Recipes: which variant a release gets, who does the work, and the sentences for what cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mlir_matrix.catalog.models import base
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.execute.keys import ACTIONS_FOLDER
from mlir_matrix.expand.recipes import (
    TWO_BACKENDS,
    ResolvedStep,
    Unsupported,
    filecheck_of,
    resolve_runner,
    resolve_step,
    resolve_tool,
    unmet,
)
from support.catalogs import catalog, entry

ENVIRONMENTS = {
    "mlir": "components: [llvm, numpy]",
    "torch-mlir": "components: [torch-mlir, numpy]",
    "filecheck": "components: [filecheck]",
    "python": "{}",
}
COMPONENTS = {
    "llvm": (
        "[{release: 13.0.1}, {release: 18.1.8}, {release: 19.1.7}, {release: 20.1.0}, {release: 22.1.8}, "
        "{release: 24.0.0+torch-mlir.1, bindings: torch_mlir, carries: [torch, stablehlo]}, {release: 24.0.0+deb.2}]"
    ),
    "torch-mlir": "[{release: '20261001', bindings: torch_mlir, carries: [torch]}]",
    "numpy": "[{release: 1.26.4}, {release: 2.4.6}]",
    "filecheck": "[{release: 1.0.6}]",
}
STEP = "description: d\nenvironment: mlir\naccepts: [a]\n"
VARIANTS = (
    "passes: own\nschedule: own.mlir\nvariants:\n"
    "- {when: {llvm: '>=24'}, carries: {llvm: stablehlo}, passes: carried}\n"
    "- {when: {llvm: '>=22'}}\n"
    "- {when: {llvm: '>=19,!=20'}, passes: older}\n"
    "- {when: {llvm: '18', numpy: '2.4'}, passes: oldest, schedule: old.mlir}\n"
)


def resolved_step(step: str, overrides: dict[str, str] | None = None, **swaps: str) -> ResolvedStep | Unsupported:
    own = catalog(
        environments=ENVIRONMENTS, components=COMPONENTS, known_good="pins: {}", steps={}, pipelines={}, targets={}
    )  # fmt: skip
    steps: Any = {"s": entry("steps", base.Step, "s", STEP + step)}
    object.__setattr__(own, "steps", steps)
    return resolve_step(own, "s", Pins(own, overrides or {}, swaps))


def made(step: str, release: str) -> ResolvedStep:
    found = resolved_step(step, {"llvm": release})
    assert isinstance(found, ResolvedStep), found
    return found


def reason(found: ResolvedStep | Unsupported) -> str:
    assert isinstance(found, Unsupported), found
    return found.reason


def test_a_step_without_variants_is_what_it_says() -> None:
    found = made("passes: p\nschedule: s.mlir", "22.1.8")
    assert (found.passes, found.schedule, found.patterns) == ("p", "s.mlir", None)
    assert (found.variant, found.because) == ("", "")
    assert (found.environment, found.pins) == ("mlir@llvm=22.1.8", (("llvm", "22.1.8"), ("numpy", "2.4.6")))
    assert made("passes: p", "24.0.0+deb.2").environment == "mlir"


@pytest.mark.parametrize(
    ("release", "passes", "schedule", "line", "because"),
    [
        ("24.0.0+torch-mlir.1", "carried", "own.mlir", 7, "llvm is 24.0.0+torch-mlir.1"),
        ("24.0.0+deb.2", "own", "own.mlir", 8, "llvm is 24.0.0+deb.2"),
        ("22.1.8", "own", "own.mlir", 8, "llvm is 22.1.8"),
        ("19.1.7", "older", "own.mlir", 9, "llvm is 19.1.7"),
        ("18.1.8", "oldest", "old.mlir", 10, "llvm is 18.1.8, numpy is 2.4.6"),
    ],
)
def test_the_first_variant_that_holds_counts(release: str, passes: str, schedule: str, line: int, because: str) -> None:
    found = made(VARIANTS, release)
    assert (found.passes, found.schedule) == (passes, schedule)
    assert (found.variant, found.because) == (f"steps/s.yaml:{line}:3", because)


@pytest.mark.parametrize("release", ["13.0.1", "20.1.0"])
def test_a_release_that_no_variant_is_for(release: str) -> None:
    """A variant applies only if all its conditions hold; the error names the newest accepted releases."""
    assert reason(resolved_step(VARIANTS, {"llvm": release})) == (
        f"step s has no variant for llvm {release}, numpy 2.4.6; it has variants for "
        "llvm >=24 and llvm with stablehlo; llvm >=22; llvm >=19,!=20; llvm 18 and numpy 2.4 "
        "(accepted: llvm 24.0.0+deb.2, 24.0.0+torch-mlir.1, 22.1.8)"
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("variants: [{when: {llvm: '>=13,<24'}, carries: {llvm: torch}}, {carries: {llvm: stablehlo}}]",
         "llvm >=13,<24 and llvm with torch; llvm with stablehlo (accepted: llvm 24.0.0+torch-mlir.1)"),
        ("variants: [{when: {llvm: '18', numpy: '<2'}}, {when: {llvm: '99'}}]", "llvm 18 and numpy <2; llvm 99"),
        ("variants: [{when: {llvm: '13', numpy: '1.26'}}, {when: {llvm: '18', numpy: '>=2'}}]",
         "llvm 13 and numpy 1.26; llvm 18 and numpy >=2 (accepted: llvm 18.1.8; numpy 1.26.4)"),
        ("variants: [{when: {llvm: '>=19'}}]\nrequires: [{component: llvm, releases: '<22', reason: r}]",
         "llvm >=19 (accepted: llvm 20.1.0, 19.1.7)"),
    ],
)  # fmt: skip
def test_the_releases_that_would_do(text: str, hint: str) -> None:
    """Each alone, everything else as it is pinned; none where a component's release is not all that would have to change."""
    found = reason(resolved_step(f"passes: p\n{text}", {"llvm": "13.0.1"}))
    assert found.partition("; it has variants for ")[2] == hint


def test_variants_for_a_component_that_is_not_there() -> None:
    assert reason(resolved_step("passes: p\nvariants: [{when: {llvm: '>=18'}}]", {}, mlir="torch-mlir")) == (
        "step s has no variant for an environment without llvm; it has variants for llvm >=18"
    )
    assert reason(resolved_step("passes: p\nvariants: [{carries: {llvm: torch}}]", {}, mlir="torch-mlir")) == (
        "step s has no variant for an environment without llvm; it has variants for llvm with torch"
    )


@pytest.mark.parametrize(
    ("requires", "release", "sentence"),
    [
        ("[{component: llvm, releases: '>=19', reason: r}]", "19.1.7", None),
        ("[{component: llvm, releases: '>=19', reason: 'before, it crashed '}]", "18.1.8",
         "step s needs llvm >=19, but llvm 18.1.8 is pinned: before, it crashed"),
        ("[{component: llvm, carries: torch, reason: r}]", "24.0.0+torch-mlir.1", None),
        ("[{component: llvm, carries: torch, reason: r}]", "24.0.0+deb.2",
         "step s needs torch, which llvm 24.0.0+deb.2 does not carry: r"),
        ("[{component: llvm, releases: '24', carries: torch, reason: r}]", "22.1.8",
         "step s needs llvm 24, but llvm 22.1.8 is pinned: r"),
        ("[{component: llvm, releases: '24', carries: torch, reason: r}]", "24.0.0+deb.2",
         "step s needs torch, which llvm 24.0.0+deb.2 does not carry: r"),
        ("[{component: llvm, releases: '>=13', reason: a}, {component: numpy, releases: '<2', reason: b}]", "22.1.8",
         "step s needs numpy <2, but numpy 2.4.6 is pinned: b"),
        ("[{component: torch-mlir, releases: '<1', reason: another environment's}]", "22.1.8", None),
    ],
)  # fmt: skip
def test_requirements(requires: str, release: str, sentence: str | None) -> None:
    found = resolved_step(f"passes: p\nrequires: {requires}", {"llvm": release})
    assert (found.reason if isinstance(found, Unsupported) else None) == sentence


def test_requirements_are_asked_before_variants() -> None:
    text = f"{VARIANTS}requires: [{{component: llvm, releases: '>=19', reason: r}}]"
    assert reason(resolved_step(text, {"llvm": "13.0.1"})) == "step s needs llvm >=19, but llvm 13.0.1 is pinned: r"


@pytest.mark.parametrize(
    ("tool", "by_bindings", "by_programs"),
    [("passes", "bindings", "programs"), ("object", "bindings", "programs"), ("check", None, None)],
)
def test_programs_do_what_bindings_would(tool: str, by_bindings: str | None, by_programs: str | None) -> None:
    with_bindings = made(f"tool: {tool}", "24.0.0+torch-mlir.1")
    assert (with_bindings.tool, with_bindings.backend, with_bindings.bindings) == (tool, by_bindings, "torch_mlir")
    without = made(f"tool: {tool}", "22.1.8")
    assert (without.tool, without.backend, without.bindings) == (tool, by_programs, None)


@pytest.mark.parametrize("tool", ["passes\nbackend: programs", "object\nbackend: programs"])
def test_what_only_programs_can_do_needs_a_release_of_programs(tool: str) -> None:
    """Before anything is planned: bindings bring no mlir-translate."""
    assert made(f"tool: {tool}", "22.1.8").backend == "programs"
    assert reason(resolved_step(f"tool: {tool}", {"llvm": "24.0.0+torch-mlir.1"})) == (
        "step s works by programs of a release, but llvm 24.0.0+torch-mlir.1 has only Python bindings; pin another release"
    )
    assert reason(resolved_step(f"tool: {tool}", {}, mlir="python")) == (
        "step s works by programs of a release, but its environment has none; pin another release"
    )


@pytest.mark.parametrize(
    ("release", "found"),
    [
        ("22.1.8", "mlir@llvm=22.1.8"),
        ("24.0.0+torch-mlir.1", "target t runs kernels by programs of a release, but llvm 24.0.0+torch-mlir.1 has only "
         "Python bindings; pin another release"),
    ],
)  # fmt: skip
def test_what_a_target_runs_its_kernels_in(release: str, found: str) -> None:
    own = catalog(environments=ENVIRONMENTS, components=COMPONENTS, known_good="pins: {}")
    text = (
        "description: d\ntool: run_jit\ntriple: x\naccepts: [llvm]\nmachine: [x86_64]\n"
        "linker_environment: zig\nrunner_environment: mlir"
    )
    runs = resolve_runner(entry("targets", base.Target, "t", text), Pins(own, {"llvm": release}))
    assert (runs.reason if isinstance(runs, Unsupported) else runs.environment) == found


def test_without_components_there_is_nothing_to_choose() -> None:
    found = resolved_step("tool: passes\npasses: p", {}, mlir="python")
    assert isinstance(found, ResolvedStep)
    assert (found.tool, found.backend, found.bindings, found.pins, found.environment) == (
        "passes", "bindings", None, (), "mlir",
    )  # fmt: skip


def test_every_tool_with_two_backends_is_named() -> None:
    tools = (ACTIONS_FOLDER / "tools").glob("*.py")
    found = {file.stem for file in tools if "backend.backend_of(action)" in file.read_text()}
    # A Python file may ask for either; three do what no step names, by the tool of another.
    assert found | {"python_file"} == {*TWO_BACKENDS, "same_ir", "reprint", "print_passes"}


def test_patterns_take_bindings() -> None:
    text = "passes: p\npatterns: p.mlir"
    assert made(text, "24.0.0+torch-mlir.1").patterns == "p.mlir"
    assert reason(resolved_step(text, {"llvm": "22.1.8"})) == (
        "step s applies PDL patterns and needs Python bindings, which llvm 22.1.8 and numpy 2.4.6 does not have"
    )


def test_patterns_of_one_variant_say_nothing_about_the_others() -> None:
    text = "passes: p\nvariants: [{when: {llvm: '>=24'}, patterns: new.mlir}, {when: {llvm: '<24'}}]"
    assert made(text, "22.1.8").patterns is None
    assert made(text, "24.0.0+torch-mlir.1").patterns == "new.mlir"
    assert "applies PDL patterns" in reason(resolved_step(text, {"llvm": "24.0.0+deb.2"}))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("24.0.0+torch-mlir.1", ("bindings", "torch_mlir", "mlir@llvm=24.0.0+torch-mlir.1")),
        ("22.1.8", ("programs", None, "mlir@llvm=22.1.8")),
    ],
)
def test_an_ingress_has_a_recipe_too(release: str, expected: tuple[str | None, str | None, str]) -> None:
    own = catalog(environments=ENVIRONMENTS, components=COMPONENTS, known_good="pins: {}")
    text = "description: d\nenvironment: mlir\nemits: {a: a.mlir}"
    found = resolve_tool(entry("frameworks", base.Framework, "f", text), Pins(own, {"llvm": release}))
    assert isinstance(found, ResolvedStep)
    assert (found.backend, found.bindings, found.environment) == expected
    assert found.tool == "python_file"
    assert (found.name, found.passes, found.variant) == ("f", None, "")


@pytest.mark.parametrize(
    ("release", "found"),
    [
        ("{release: 22.1.8}", "llvm 22.1.8"),
        ("{release: 24.0.0, bindings: mlir}", ""),
        ("{release: 22.1.8+own.1, provider: host, programs: [mlir-opt, FileCheck]}", "llvm 22.1.8+own.1"),
        ("{release: 22.1.8+own.2, provider: host, programs: [mlir-opt]}", ""),
    ],
)
def test_a_release_of_programs_brings_its_filecheck(release: str, found: str) -> None:
    """A build of one's own only if it has one."""
    own = catalog(
        environments=ENVIRONMENTS, components={**COMPONENTS, "llvm": f"[{release}]"}, known_good="pins: {}", steps={},
        pipelines={}, targets={},
    )  # fmt: skip
    llvm = own.components["llvm"]
    document = llvm.document.model_copy(update={"tools": ("mlir-opt", "FileCheck")})
    object.__setattr__(own, "components", {**own.components, "llvm": replace(llvm, document=document)})
    pins = (("llvm", document.releases[0].release), ("numpy", "2.4.6"))
    assert filecheck_of(own, ResolvedStep(name="s", tool="passes", environment="mlir", pins=pins)) == found


def test_what_is_unmet_names_who_asks() -> None:
    own = catalog(environments=ENVIRONMENTS, components=COMPONENTS, known_good="pins: {}")
    releases = Pins(own, {"llvm": "18.1.8"}).releases("mlir")
    needs = base.Requirement(component="llvm", releases="!=18.1.8", reason="because\n")
    assert (
        unmet("workload w", [needs], releases) == "workload w needs llvm !=18.1.8, but llvm 18.1.8 is pinned: because"
    )
    assert unmet("workload w", [], releases) == ""
