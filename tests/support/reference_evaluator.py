"""A suite evaluated one test at a time, straight from the words of the format; the fast expansion must agree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product

from mlir_matrix.base.names import TestGlob
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Requirement, StepUse
from mlir_matrix.catalog.models.suites import Suite, SuiteBlock
from mlir_matrix.catalog.releases import parse_range

AXES = ("framework", "pipeline", "target", "workload")


class NothingError(Exception):
    """A rule that speaks about nothing, or against another one."""


@dataclass
class Verdict:
    """What is known about a test: who put it in, who left it out, what is expected of it, whether it can run."""

    origin: str
    dropped: str | None = None
    expected: str | None = None
    runs: bool = True


def evaluate(catalog: Catalog, suite: Entry[Suite]) -> dict[str, Verdict]:
    """All tests of a suite, in order, left-out ones too. Raises NothingError where the suite is wrong."""
    found: dict[str, Verdict] = {}
    place = suite.source.position
    for index, block in enumerate(suite.document.blocks):
        for identifier in block_tests(catalog, block):
            found.setdefault(identifier, Verdict(place("blocks", index)))
    add_steps(catalog, suite, found)
    for index, glob in enumerate(suite.document.include):
        tests = [identifier for identifier in everything(catalog) if TestGlob(glob).matches(identifier)]
        if not tests:
            raise NothingError
        for identifier in tests:
            found.setdefault(identifier, Verdict(place("include", index)))
    for identifier, verdict in found.items():
        test, _, pins = identifier.partition("@")
        verdict.runs = runs(catalog, *test.split("/"), pins=pins)
    stated = state(catalog, suite, found)
    exclude(suite, found)
    for names in stated:
        if not any(found[name].runs and not found[name].dropped for name in names):
            raise NothingError
    expect(suite, found)
    return found


def add_steps(catalog: Catalog, suite: Entry[Suite], found: dict[str, Verdict]) -> None:
    """The IR tests of the steps that a suite lists."""
    for index, pattern in enumerate(suite.document.steps):
        steps = [name for name, step in catalog.steps.items() if step.cases and fnmatchcase(name, pattern)]
        if not steps:
            raise NothingError
        for step in steps:
            for case in catalog.steps[step].cases:
                found.setdefault(f"mlir/{step}/ir/{case}", Verdict(suite.source.position("steps", index)))


def block_tests(catalog: Catalog, block: SuiteBlock) -> list[str]:
    """The product of a block's axes, for each step of its zipped axes."""
    if block.steps:
        return step_tests(catalog, block)
    names = dict(zip(AXES, (catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads), strict=True))
    if len({len(entries) for entries in block.zip.values()}) > 1 or set(block.zip) & set(block.product):
        raise NothingError
    found: list[str] = []
    for row in zip(*block.zip.values(), strict=True) if block.zip else [()]:
        entries = dict.fromkeys(AXES, ("*",)) | dict(block.product)
        entries |= {axis: (entry,) for axis, entry in zip(block.zip, row, strict=True)}
        axes = []
        for axis in AXES:
            resolved = [[name for name in names[axis] if fnmatchcase(name, entry)] for entry in entries[axis]]
            if not all(resolved):
                raise NothingError
            axes.append(dict.fromkeys(name for some in resolved for name in some))
        *cell, column = axes
        pins = [f"@{pairs}" if pairs else "" for pairs in varied(block)]
        for names_of_cell, suffix, workload in product(product(*cell), pins, column):
            found.append("/".join((*names_of_cell, workload)) + suffix)
    cells = dict.fromkeys(tuple(identifier.split("/")[:3]) for identifier in found)
    used = [components(catalog, *cell, steps) for cell in cells for _, steps in routes(catalog, *cell)]
    if block.pins and used and not any(set(block.pins) <= some for some in used):
        raise NothingError
    return found


def step_tests(catalog: Catalog, block: SuiteBlock) -> list[str]:
    """The IR tests of a block's steps, with each of its pins."""
    found: list[str] = []
    steps = [[name for name, step in catalog.steps.items() if step.cases and fnmatchcase(name, p)] for p in block.steps]
    if not all(steps) or block.product or block.zip:
        raise NothingError
    for name in (name for some in steps for name in some):
        for pins in varied(block):
            found += [f"mlir/{name}/ir/{case}{pins and '@'}{pins}" for case in catalog.steps[name].cases]
    if block.pins and not any(set(block.pins) <= own_components(catalog, name) for some in steps for name in some):
        raise NothingError
    return found


def own_components(catalog: Catalog, step: str) -> set[str]:
    """The components of a step's environment."""
    return set(catalog.environments[catalog.steps[step].document.environment].document.components)


def varied(block: SuiteBlock) -> list[str]:
    """What stands after the ``@`` of a block's tests, components by name."""
    found = [""]
    for component in sorted(block.pins):
        found = [f"{before},{component}={release}".lstrip(",") for before in found for release in block.pins[component]]
    return list(dict.fromkeys(found))


def everything(catalog: Catalog) -> list[str]:
    """All identifiers of a catalog."""
    cells = product(catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads)
    return ["/".join(test) for test in cells] + [
        f"mlir/{name}/ir/{case}" for name, step in catalog.steps.items() for case in step.cases
    ]


def runs(catalog: Catalog, framework: str, pipeline: str, target: str, workload: str, *, pins: str) -> bool:
    """Whether any route leads from a source of the workload to something that the target runs, with these pins."""
    if target == "ir":
        asked = {pair.split("=")[0] for pair in pins.split(",") if pair}
        return step_works(catalog, pipeline, pins) and asked <= own_components(catalog, pipeline)
    entry = catalog.workloads[workload]
    if framework in entry.document.absent:
        return False
    for source, steps in routes(catalog, framework, pipeline, target):
        if source in entry.files and all(step_works(catalog, step, pins) for step in steps):
            used = [catalog.frameworks[framework].document.environment]
            used += [catalog.steps[step].document.environment for step in steps]
            if all(meets(catalog, entry.document.requires, environment, pins) for environment in used):
                asked = {pair.split("=")[0] for pair in pins.split(",") if pair}
                return asked <= components(catalog, framework, pipeline, target, steps)
    return False


def routes(catalog: Catalog, framework: str, pipeline: str, target: str) -> list[tuple[str, list[str]]]:
    """The sources from which a cell can begin, and the steps from there to what the target runs."""
    document, found = catalog.pipelines[pipeline].document, []
    emits = catalog.frameworks[framework].document.emits
    for kind, entry in document.entry.items():
        if kind in emits:
            steps = follow(catalog, kind, (*entry, *document.steps), len(entry), target)
            found += [(emits[kind], steps)] if steps else []
    return found


def components(catalog: Catalog, framework: str, pipeline: str, target: str, steps: list[str]) -> set[str]:
    """All that a route's environments hold."""
    document = catalog.targets[target].document
    used = [
        catalog.frameworks[framework].document.environment,
        document.linker_environment,
        document.runner_environment,
    ]
    used += [catalog.steps[step].document.environment for step in steps]
    return {name for each in used for name in catalog.environments[each].document.components}


def follow(catalog: Catalog, kind: str, uses: tuple[str | StepUse, ...], entry: int, target: str) -> list[str] | None:
    """The steps to what a target runs: its own come after the pipeline's where those do not reach it."""
    document = catalog.targets[target].document
    at, names, kinds = kind, list[str](), list[str]()
    for use in uses:
        name, at = step_of(catalog, use, at)
        names.append(name)
        kinds.append(at)
    for length in range(len(names), entry, -1):
        if kinds[length - 1] in document.accepts:
            return names[:length]
    for length in range(len(names), entry, -1):
        at, more = kinds[length - 1], list[str]()
        for use in document.codegen:
            name = use.step if isinstance(use, StepUse) else use
            if at not in catalog.steps[name].document.accepts:
                break
            name, at = step_of(catalog, use, at)
            more.append(name)
        if more and at in document.accepts:
            return names[:length] + more
    return None


def step_of(catalog: Catalog, use: str | StepUse, at: str) -> tuple[str, str]:
    """A step's name, and the kind that it makes of another."""
    name = use.step if isinstance(use, StepUse) else use
    step = catalog.steps[name].document
    assert at in step.accepts
    return name, step.kind_from(at)


def release(catalog: Catalog, component: str, pins: str) -> str:
    """The release that counts: the one of the identifier, the known good one, the last that stays."""
    wanted = dict(pair.split("=") for pair in pins.split(",") if pair).get(component)
    releases = catalog.components[component].document.releases
    if wanted is not None:
        return [each.release for each in releases if f"{each.release}.".startswith(f"{wanted}.")][-1]
    for known in catalog.known_good:
        if component in known.document.pins:
            return known.document.pins[component]
    return [each.release for each in releases if each.durability == "permanent"][-1]


def step_works(catalog: Catalog, name: str, pins: str) -> bool:
    """Whether a step's requirements are met, and one of its variants holds where it has any."""
    step = catalog.steps[name].document
    return meets(catalog, step.requires, step.environment, pins) and (
        not step.variants
        or any(
            all(release(catalog, component, pins) in parse_range(text) for component, text in variant.when.items())
            for variant in step.variants
        )
    )


def meets(catalog: Catalog, requires: tuple[Requirement, ...], environment: str, pins: str) -> bool:
    """Whether an environment's releases are in the ranges that something asks for."""
    return all(
        release(catalog, each.component, pins) in parse_range(each.releases)
        for each in requires
        if each.releases and each.component in catalog.environments[environment].document.components
    )


def state(catalog: Catalog, suite: Entry[Suite], found: dict[str, Verdict]) -> list[list[str]]:
    """Add the tests with properties; the names of those that each pattern of a property stands for."""
    tests, stated, owner = dict(found), list[list[str]](), dict[str, int]()
    for index, prop in enumerate(suite.document.properties):
        for number, glob in enumerate(prop.tests):
            names = []
            for identifier, base in tests.items():
                test, mark, pins = identifier.partition("@")
                cell = test.split("/")[:3]
                if cell[2] == "ir" or not TestGlob(glob).matches(identifier):
                    continue
                name = f"{test}~{prop.called}{mark}{pins}"
                if owner.setdefault(name, index) != index:
                    raise NothingError
                ok = base.runs
                if prop.agrees:
                    other = [own or old for own, old in zip(
                        (prop.agrees.framework, prop.agrees.pipeline, prop.agrees.target), cell, strict=True
                    )]  # fmt: skip
                    if other == cell:
                        raise NothingError
                    ok = ok and runs(catalog, *other, test.split("/")[3], pins=pins)
                names.append(name)
                position = suite.source.position("properties", index, "tests", number)
                found.setdefault(name, Verdict(position, runs=ok))
            if not names:
                raise NothingError
            stated.append(names)
    return stated


def exclude(suite: Entry[Suite], found: dict[str, Verdict]) -> None:
    """Mark what is left out, by the first exclusion that matches."""
    for index, exclusion in enumerate(suite.document.exclude):
        for number, glob in enumerate(exclusion.tests):
            matched = [
                verdict
                for identifier, verdict in found.items()
                if TestGlob(glob).matches(identifier) or TestGlob(glob).matches(re.sub("~[^@]*", "", identifier))
            ]
            if not matched:
                raise NothingError
            for verdict in matched:
                verdict.dropped = verdict.dropped or suite.source.position("exclude", index, "tests", number)


def expect(suite: Entry[Suite], found: dict[str, Verdict]) -> None:
    """Mark what is expected of tests that can run, by the first expectation that matches."""
    for expectation in suite.document.expect:
        for glob in expectation.tests:
            matched = [
                verdict
                for identifier, verdict in found.items()
                if TestGlob(glob).matches(identifier) and verdict.runs and not verdict.dropped
            ]
            if not matched:
                raise NothingError
            for verdict in matched:
                if verdict.expected not in (None, expectation.outcome):
                    raise NothingError
                verdict.expected = expectation.outcome
