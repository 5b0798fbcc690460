"""A suite evaluated one test at a time, straight from the words of the format; the fast expansion must agree."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import Block, StepUse, Suite
from mlir_matrix.names import TestGlob

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
        verdict.runs = runs(catalog, *identifier.split("/"))
    exclude(suite, found)
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


def block_tests(catalog: Catalog, block: Block) -> list[str]:
    """The product of a block's axes, for each step of its zipped axes."""
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
        found += ["/".join(test) for test in product(*axes)]
    return found


def everything(catalog: Catalog) -> list[str]:
    """All identifiers of a catalog."""
    cells = product(catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads)
    return ["/".join(test) for test in cells] + [
        f"mlir/{name}/ir/{case}" for name, step in catalog.steps.items() for case in step.cases
    ]


def runs(catalog: Catalog, framework: str, pipeline: str, target: str, workload: str) -> bool:
    """Whether any road leads from a source of the workload to something that the target runs."""
    if target == "ir":
        return True
    entry = catalog.workloads[workload]
    if framework in entry.document.absent:
        return False
    document = catalog.pipelines[pipeline].document
    for kind, source in catalog.frameworks[framework].document.emits.items():
        if kind not in document.entry or source not in entry.files:
            continue
        at = kind
        for number, use in enumerate((*document.entry[kind], *document.steps)):
            step = catalog.steps[use.step if isinstance(use, StepUse) else use].document
            assert at in step.accepts
            at = step.gives or at
            if number >= len(document.entry[kind]) and at in catalog.targets[target].document.accepts:
                return True
    return False


def exclude(suite: Entry[Suite], found: dict[str, Verdict]) -> None:
    """Mark what is left out, by the first exclusion that matches."""
    for index, exclusion in enumerate(suite.document.exclude):
        for number, glob in enumerate(exclusion.tests):
            matched = [verdict for identifier, verdict in found.items() if TestGlob(glob).matches(identifier)]
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
