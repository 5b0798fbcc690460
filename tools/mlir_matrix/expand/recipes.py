"""Resolve a tool under pins to its variant, backend and environment, or to the reason why it is unsupported.

The pinned release decides whether MLIR's Python bindings or the release's programs (``mlir-opt``, …) run a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import (
    COMMAND,
    PYTHON_FILE,
    TOOL_NOUNS,
    Conditions,
    Framework,
    ParameterValue,
    Requirement,
    SourceForm,
    Step,
    Target,
    Tool,
    Variant,
)
from mlir_matrix.catalog.models.toolchains import Release
from mlir_matrix.catalog.pins import Pins, release_of
from mlir_matrix.catalog.releases import parse_range

#: The backend of a tool: MLIR's Python bindings, or a release's programs.
Backend = Literal["bindings", "programs"]
#: Tools that have both backends; a Python file may call either.
TWO_BACKENDS = frozenset({"passes", "object", PYTHON_FILE})
#: Tools of steps whose environments can read IR.
READS_IR = frozenset({"passes", "object"})
#: Tools whose output is IR.
KEEPS_IR = frozenset({"passes", "check"})
#: The program of LLVM that judges IR tests.
FILECHECK = "FileCheck"
#: The most releases that a reason suggests: the newest.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The reason, one sentence, why something is unsupported."""

    reason: str
    #: For a cell that does not connect: the kinds of which one would have to be reached, in words.
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedStep:
    """A step, a framework's importer or a target's runner, under some pins."""

    name: str
    #: Module of ``mlir_matrix.actions.tools``.
    tool: str
    #: The environment as plans name it, with its pins if they are not the default ones.
    environment: str
    #: Components of the environment and their releases.
    pins: tuple[tuple[str, str], ...]
    #: None if the tool has only one.
    backend: Backend | None = None
    bindings: str | None = None
    passes: str | None = None
    schedule: str | None = None
    patterns: str | None = None
    command: tuple[str, ...] | None = None
    #: Folders of the environment's wheels with programs.
    programs: tuple[str, ...] = ()
    #: The defaults of parameters in these releases.
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict, compare=False)
    #: ``file:line:column`` of the variant that applies, and the releases that chose it; empty without variants.
    variant: str = ""
    because: str = ""


#: Entries that have a tool.
Tooled = Entry[Framework] | Entry[SourceForm] | Entry[Step] | Entry[Target]


def resolve_step(catalog: Catalog, name: str, pins: Pins) -> ResolvedStep | Unsupported:
    """Resolve a step under some pins."""
    entry = catalog.steps[name]
    step = entry.document
    pins = pins.of_step(name)
    releases = pins.releases(step.environment)
    if step.backend == "programs" and (lacking := _without_programs(f"step {name} works", releases)):
        return Unsupported(lacking)
    found = resolve_tool(entry, pins)
    if isinstance(found, Unsupported):
        return found
    if step.backend:
        found = replace(found, backend=step.backend)
    if found.patterns and found.backend == "programs":
        holder = _holder(releases)
        return Unsupported(f"step {name} applies PDL patterns and needs Python bindings, which {holder} does not have")
    return found


def resolve_runner(entry: Entry[Target], pins: Pins) -> ResolvedStep | Unsupported:
    """Resolve the runner of a target's artifacts under some pins."""
    document = entry.document
    if document.tool == "run_jit":
        # MLIR's own runner is a program.
        lacking = _without_programs(f"target {entry.name} runs kernels", pins.releases(document.runner_environment))
        if lacking:
            return Unsupported(lacking)
    return resolve_tool(entry, pins)


def resolve_tool(entry: Tooled, pins: Pins) -> ResolvedStep | Unsupported:
    """Resolve a tool under some pins. Steps and runners have further conditions."""
    document = entry.document
    who = f"{TOOL_NOUNS[type(document)]} {entry.name}"
    releases = pins.releases(document.works_in)
    if lacking := unmet(who, document.requires, releases):
        return Unsupported(lacking)
    variant, position, because = Variant(), "", ""
    if document.variants:
        index = matching_variant(document.variants, releases)
        if index is None:
            return Unsupported(_no_variant(pins.catalog, who, document, releases))
        variant, position = document.variants[index], entry.source.position("variants", index)
        because = ", ".join(f"{name} is {releases[name].release}" for name in {**variant.when, **variant.carries})
    tool = document.tool_name(entry.files)
    bindings = next((release.bindings for release in releases.values() if release.bindings), None)
    backend: Backend | None = None
    if tool in TWO_BACKENDS:
        backend = "bindings" if bindings or not releases else "programs"
    step = document if isinstance(document, Step) else variant
    return ResolvedStep(
        name=entry.name,
        tool=tool,
        environment=pins.reference(document.works_in),
        pins=tuple((component, release.release) for component, release in releases.items()),
        backend=backend,
        bindings=bindings,
        passes=variant.passes or step.passes,
        schedule=variant.schedule or step.schedule,
        patterns=variant.patterns or step.patterns,
        command=variant.command or document.command,
        programs=_program_folders(pins.catalog, releases) if tool in (COMMAND, PYTHON_FILE) else (),
        parameters={name: each.default for name, each in document.parameters.items()} | variant.parameters,
        variant=position,
        because=because,
    )


def _program_folders(catalog: Catalog, releases: Mapping[str, Release]) -> tuple[str, ...]:
    documents = [(catalog.components[name].document, release) for name, release in releases.items()]
    return tuple(
        folder
        for component, release in documents
        # Bindings come without programs.
        if (release.provider or component.provider) == "pypi" and not release.bindings
        for folder in component.programs
    )


def _without_programs(who: str, releases: Mapping[str, Release]) -> str:
    """Return why releases have no programs, one sentence; empty if they have some."""
    bound = {name: release for name, release in releases.items() if release.bindings}
    if releases and not bound:
        return ""
    where = f"{_holder(bound)} has only Python bindings" if bound else "its environment has none"
    return f"{who} by programs of a release, but {where}; pin another release"


def unmet(who: str, requires: Sequence[Requirement], releases: Mapping[str, Release]) -> str:
    """Return a sentence about the first requirement that an environment's releases do not meet; empty if they meet all."""
    for requirement in requires:
        release = releases.get(requirement.component)
        if release is None:
            continue
        has = f"{requirement.component} {release.release}"
        wanted = requirement.releases
        if wanted is not None and release.release not in parse_range(wanted):
            return f"{who} needs {requirement.component} {wanted}, but {has} is pinned: {requirement.reason.strip()}"
        if requirement.carries is not None and requirement.carries not in release.carries:
            return f"{who} needs {requirement.carries}, which {has} does not carry: {requirement.reason.strip()}"
    return ""


def matching_variant(variants: Sequence[Conditions], releases: Mapping[str, Release]) -> int | None:
    """Return the index of the first variant that matches some releases."""
    for index, variant in enumerate(variants):
        asked = ((name, releases.get(name)) for name in {**variant.when, **variant.carries})
        if all(release and variant.holds(name, release.release, release.carries) for name, release in asked):
            return index
    return None


def _no_variant(catalog: Catalog, who: str, document: Tool, releases: Mapping[str, Release]) -> str:
    variants = document.variants
    asked = dict.fromkeys(name for variant in variants for name in (*variant.when, *variant.carries))
    pinned = ", ".join(f"{name} {releases[name].release}" for name in asked if name in releases)
    pinned = pinned or f"an environment without {' and '.join(asked)}"
    known = "; ".join(
        " and ".join(
            [f"{name} {wanted}" for name, wanted in variant.when.items()]
            + [f"{name} with {wanted}" for name, wanted in variant.carries.items()]
        )
        for variant in variants
    )
    others = "; ".join(
        f"{name} {', '.join(serving)}" for name in asked if (serving := _serving(catalog, document, releases, name))
    )
    hint = f" (accepted: {others})" if others else ""
    return f"{who} has no variant for {pinned}; it has variants for {known}{hint}"


def _serving(catalog: Catalog, document: Tool, releases: Mapping[str, Release], name: str) -> list[str]:
    """Return the newest releases of a component for which a tool has a variant, with all other pins unchanged."""
    if name not in releases:
        return []
    fitting = (
        release.release
        for release in reversed(catalog.components[name].document.releases)
        if matching_variant(document.variants, swapped := {**releases, name: release}) is not None
        and not unmet("", document.requires, swapped)
    )
    return list(islice(fitting, _SHOWN))


def filecheck_of(catalog: Catalog, resolved_step: ResolvedStep) -> str:
    """Return the release whose own FileCheck is among the programs of a step's environment, ``llvm 22.1.8``, or nothing."""
    for name, wanted in resolved_step.pins:
        component = catalog.components[name]
        release = release_of(component, wanted)
        tools = component.document.tools
        # A build of one's own lists the programs that it has; bindings come without programs.
        if FILECHECK in tools and FILECHECK in (release.programs or tools) and not release.bindings:
            return f"{name} {wanted}"
    return ""


def _holder(releases: Mapping[str, Release]) -> str:
    return " and ".join(f"{name} {release.release}" for name, release in releases.items())
