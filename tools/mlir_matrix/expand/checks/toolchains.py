"""Check components and their releases, environments, known-good pins and ranges of releases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.catalog import Entry, listed
from mlir_matrix.catalog.models.base import Conditions, Document, Requirement, Tool
from mlir_matrix.catalog.models.suites import KnownFindings
from mlir_matrix.catalog.models.toolchains import PATCHER, Build, Component, KnownGood, Release
from mlir_matrix.catalog.releases import RangeError, number, parse_range
from mlir_matrix.catalog.yaml_reader import Key
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.recipes import Tooled

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: A part of a path: not '..', and not an option.
_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+-]*(?<!\.\.)")
#: The most combinations of releases to check for a step. Files may be hostile, and loading must stay quick.
_MOST_COMBINED = 20_000


def check(checker: Checker) -> None:
    """Check toolchains/, and the releases that recipes and workloads name."""
    catalog = checker.catalog
    for environment in catalog.environments.values():
        for index, name in enumerate(environment.document.components):
            checker.known(environment, "component", name, catalog.components, "components", index)
    for component in catalog.components.values():
        _component(checker, component)
    for known in catalog.known_good:
        _known_good(checker, known)
    tools: list[Tooled] = [
        *catalog.frameworks.values(), *catalog.sources.values(), *catalog.steps.values(), *catalog.targets.values()
    ]  # fmt: skip
    for tool in tools:
        _requires(checker, tool, tool.document.requires)
        _variants(checker, tool, tool.document.variants, "variants")
    for workload in catalog.workloads.values():
        _requires(checker, workload, workload.document.requires)
        for source, variants in workload.document.sources.items():
            _variants(checker, workload, variants, "sources", source)
    for kind in catalog.kinds.values():
        _variants(checker, kind, kind.document.canonical, "canonical")
    for findings in catalog.known_findings:
        check_known_findings(checker, findings)


def check_known_findings(checker: Checker, findings: Entry[KnownFindings]) -> None:
    """Check the releases that findings are known in."""
    for index, finding in enumerate(findings.document.findings):
        _conditions(checker, findings, finding, "findings", index)


def _component(checker: Checker, component: Entry[Component]) -> None:
    document = component.document
    for index, name in enumerate(document.goes_with):
        if name == component.name:
            checker.wrong(component, "a component does not go with itself", "goes-with", index)
        checker.known(component, "component", name, checker.catalog.components, "goes-with", index)
    times = Counter(release.release for release in document.releases)
    for entry, index, release in listed(component):
        at = ("releases", index)
        if not number(release.release):
            checker.wrong(entry, f"'{release.release}': a release's name begins with its number", *at, "release")
        if times[release.release] > 1:
            checker.wrong(entry, f"the release '{release.release}' is listed twice", *at, "release")
        _provided(checker, document, entry, release, *at)
    if document.in_place:
        checker.known(component, "component", PATCHER, checker.catalog.components, "in_place")
    elif document.finish:
        checker.wrong(component, "needs 'in_place: true': it patches a prefix in its final folder", "finish")
    if document.build is not None:
        _build(checker, component, document.build)


def _provided(checker: Checker, document: Component, component: Entry[Document], release: Release, *at: Key) -> None:
    """Check that a release has the keys that its provider needs. ``component`` is the entry that lists it."""
    provider = release.provider or document.provider
    if provider == "deb" and not release.suites:
        checker.wrong(component, f"the release '{release.release}' needs 'suites': the provider is deb", *at)
    if provider == "deb" and not document.packages:
        checker.wrong(component, "the key 'packages' is missing; the provider deb needs it")
    if provider == "source" and document.build is None:
        checker.wrong(component, "the key 'build' is missing; the provider source needs it")
    if provider == "source" and _COMMIT.fullmatch(release.commit or "") is None:
        message = f"the release '{release.release}' needs a 'commit' to be built from, with all of its 40 digits 0-9a-f"
        checker.wrong(component, message, *at)
    names = release.programs or document.programs
    if provider == "host" and (not names or any("/" in name for name in names)):
        message = f"the release '{release.release}' needs 'programs' to look for: the provider is host"
        checker.wrong(component, message, *at)


def _build_of_downstream(checker: Checker, component: Entry[Component], build: Build) -> None:
    """Check what a downstream adds to a build: pins that go with a commit, and carried patches."""
    for name in build.pins:
        checker.known(component, "component", name, checker.catalog.components, "build", "pins", name)
    folder = build.patches
    if folder and (not all(map(_PART.fullmatch, folder.split("/"))) or not (component.root / folder).is_dir()):
        checker.wrong(component, f"'{printable(folder)}' is no folder of the catalog", "build", "patches")


def _build(checker: Checker, component: Entry[Component], build: Build) -> None:
    """Check that no value of a build looks like an option, because the values become words of command lines."""
    if build.repository.startswith("-") or not build.repository.isprintable() or "::" in build.repository:
        shown = printable(build.repository)
        checker.wrong(
            component, f"'{shown}' is not an address or folder that git can fetch from", "build", "repository"
        )
    if build.folder != "." and not all(map(_PART.fullmatch, build.folder.split("/"))):
        checker.wrong(component, f"'{printable(build.folder)}' is no folder of the repository", "build", "folder")
    _build_of_downstream(checker, component, build)
    for name in build.options:
        if _VARIABLE.fullmatch(name) is None:
            checker.wrong(component, f"'{printable(name)}' is no variable of CMake", "build", "options", name)
    for name, folders in build.needs.items():
        checker.known(component, "component", name, checker.catalog.components, "build", "needs", name)
        for variable, folder in folders.items():
            at = ("build", "needs", name, variable)
            if _VARIABLE.fullmatch(variable) is None:
                checker.wrong(component, f"'{printable(variable)}' is no variable of CMake", *at)
            parts = folder.replace("{major}", "1").replace("{minor}", "1").split("/")
            if not all(map(_PART.fullmatch, parts)):
                checker.wrong(component, f"'{printable(folder)}' is no folder of a prefix, like 'usr/lib/cmake'", *at)


def _known_good(checker: Checker, known: Entry[KnownGood]) -> None:
    document = known.document
    _pins(checker, known, document.pins, "pins")
    for environment, pins in document.environments.items():
        at: tuple[Key, ...] = ("environments", environment)
        if checker.known(known, "environment", environment, checker.catalog.environments, *at):
            _pins(checker, known, pins, *at)
            for name in (pins.keys() & checker.catalog.components.keys()) - _held(checker, environment):
                checker.wrong(known, f"environment '{environment}' has no component '{name}'", *at, name)
    for index, passed in enumerate(document.passed):
        at = ("passed", index)
        checker.known(known, "suite", passed.suite, checker.suites(), *at, "suite")
        if not 0 <= passed.as_expected <= passed.total:
            counts = f"{passed.as_expected} of {passed.total} tests"
            checker.wrong(known, f"{counts} cannot have ended as expected", *at, "as_expected")
        checker.check_date(known, passed.date, *at, "date")


def _held(checker: Checker, environment: str) -> set[str]:
    """Return the components of an environment and those with which they are built. Its pins apply to both."""
    components = checker.catalog.components
    todo = list(checker.catalog.environments[environment].document.components)
    found = set[str]()
    while todo:
        name = todo.pop()
        if name not in found and name in components:
            found.add(name)
            todo += components[name].document.needs
    return found


def _pins(checker: Checker, known: Entry[KnownGood], pins: Mapping[str, str], *keys: Key) -> None:
    for name, wanted in pins.items():
        if checker.known(known, "component", name, checker.catalog.components, *keys, name):
            checker.release(known, name, wanted, *keys, name, in_full=True)


def _requires(checker: Checker, entry: Entry[Document], requires: Iterable[Requirement]) -> None:
    for index, requirement in enumerate(requires):
        at = ("requires", index)
        _component_known(checker, entry, requirement.component, *at, "component")
        if requirement.carries is not None:
            _carries(checker, entry, requirement.component, requirement.carries, *at, "carries")
        if requirement.releases is not None:
            _range(checker, entry, requirement.releases, *at, "releases")
        elif requirement.carries is None:
            checker.wrong(entry, "one of the keys 'releases' and 'carries' is missing", *at)


def _component_known(checker: Checker, entry: Entry[Document], component: str, *keys: Key) -> bool:
    """Check that a component exists and, for a tool, that its environment has it. A workload may name any component."""
    if not checker.known(entry, "component", component, checker.catalog.components, *keys):
        return False
    if isinstance(entry.document, Tool):
        environment = checker.catalog.environments.get(entry.document.works_in)
        if environment is not None and component not in environment.document.components:
            checker.wrong(entry, f"environment '{environment.name}' has no component '{component}'", *keys)
            return False
    return True


def _variants(checker: Checker, entry: Entry[Document], variants: Sequence[Conditions], *keys: Key) -> None:
    """Check that variants name components of the environment, and that each variant is reachable."""
    good = True
    for index, variant in enumerate(variants):
        at = (*keys, index)
        if not (variant.when or variant.carries):
            checker.wrong(entry, "one of the keys 'when' and 'carries' is missing", *at)
            good = False
        good &= _conditions(checker, entry, variant, *at)
    if good and variants:
        _applicable(checker, entry, variants, *keys)


def _conditions(checker: Checker, entry: Entry[Document], conditions: Conditions, *at: Key) -> bool:
    """Check that conditions name components, ranges of releases, and features that some release has."""
    good = True
    for component, wanted in conditions.when.items():
        good &= _component_known(checker, entry, component, *at, "when", component)
        good &= _range(checker, entry, wanted, *at, "when", component)
    for component, wanted in conditions.carries.items():
        good &= _component_known(checker, entry, component, *at, "carries", component)
        good &= _carries(checker, entry, component, wanted, *at, "carries", component)
    return good


def _applicable(checker: Checker, entry: Entry[Document], variants: Sequence[Conditions], *keys: Key) -> None:
    """Check that each variant is the first that matches some listed releases."""
    names = dict.fromkeys(name for variant in variants for name in (*variant.when, *variant.carries))
    listed = {name: checker.catalog.components[name].document.releases for name in names}
    if len(variants) * sum(map(len, listed.values())) > _MOST_COMBINED:
        return
    # By component: the variants that match one of its releases, once for all releases with the same ones.
    matching: dict[str, set[frozenset[int]]] = {name: set() for name in names}
    for name, releases in listed.items():
        for each in releases:
            found = (i for i, variant in enumerate(variants) if variant.holds(name, each.release, each.carries))
            matching[name].add(frozenset(found))
    if prod(map(len, matching.values())) > _MOST_COMBINED:
        return
    together = {frozenset(range(len(variants)))}
    for choices in matching.values():
        together = {some & more for some in together for more in choices}
    firsts = {min(some) for some in together if some}
    for index in set(range(len(variants))) - firsts:
        variant = variants[index]
        never = [name for name, choices in matching.items() if not any(index in some for some in choices)]
        if never:
            name = never[0]
            which = f" and carries '{variant.carries[name]}'" if name in variant.carries else ""
            message = (
                f"no release of {name} is in '{printable(variant.when[name])}'{which}, so this variant never applies"
            )
            checker.wrong(entry, message, *keys, index, "when", name)
        else:
            earlier = sorted({min(some) for some in together if index in some})
            places = " or ".join(entry.source.position(*keys, other) for other in earlier)
            message = f"this variant never applies: for each release that it matches, {places} comes first"
            checker.wrong(entry, message, *keys, index)


def _carries(checker: Checker, entry: Entry[Document], component: str, wanted: str, *keys: Key) -> bool:
    """Check that some release carries a name, because a typo would make all tests unsupported."""
    found = checker.catalog.components.get(component)
    if found is None:
        return False  # reported by _component_known
    carried = {name for release in found.document.releases for name in release.carries}
    if wanted in carried:
        return True
    near = did_you_mean(wanted, carried)
    checker.wrong(entry, f"no release of {component} carries '{printable(wanted)}'{near}", *keys)
    return False


def _range(checker: Checker, entry: Entry[Document], text: str, *keys: Key) -> bool:
    try:
        parse_range(text)
    except RangeError as error:
        checker.wrong(entry, printable(str(error), 200), *keys)
        return False
    return True
