"""From a suite's rules to its tests. What is wrong with a rule is found here, by set operations on names.

The order of things: blocks, then ``steps``, then ``include`` put tests in, and ``properties`` more of them; ``exclude``
takes any of them out, a test with all its properties; of what is left, ``expect`` speaks about those that can run. A test
that several rules put in belongs to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.suites import Block, Expectation, Suite
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.errors import CatalogError, UsageError
from mlir_matrix.expand.expansion import Expansion
from mlir_matrix.expand.property_sets import check_properties, property_areas
from mlir_matrix.expand.routes import Connector, listed
from mlir_matrix.expand.test_sets import NO_PINS, Area, Box, Row, Rule, Universe, ir_area, unknown, walk
from mlir_matrix.names import OF, SEGMENT_NAMES, PatternError

Key = tuple[str | int, ...]
#: What nobody can expect, and why.
NEVER_EXPECTED: dict[str, str] = {
    Outcome.UNSUPPORTED: "it follows from the files and needs no expectation",
    Outcome.SKIPPED: "it depends on the machine, not on the suite",
    Outcome.INFRA_ERROR: "it is nobody's verdict",
    Outcome.PASS: "every test is expected to pass where nothing else is said",
}


def expand(catalog: Catalog, suite: Entry[Suite], pins: Pins | None = None) -> Expansion:
    """The tests of a suite. Raises CatalogError with the place of a rule that is wrong or speaks about nothing.

    ``pins`` are those that a person asks for (default: none): what was known to be so without them may be idle then.
    """
    if pins is not None:
        _free(suite, pins)
    return _expand(catalog, suite, pins)


def _expand(catalog: Catalog, suite: Entry[Suite], pins: Pins | None) -> Expansion:
    document, place = suite.document, suite.source.position
    universe = Universe(catalog, [stated.called for stated in document.properties])
    connector = Connector(catalog, pins)
    areas: list[Area] = []
    derived = pins is None or not (pins.overrides or pins.swaps)
    for index, block in enumerate(document.blocks):
        made = list(_block_areas(universe, suite, block, ("blocks", index)))
        if derived and block.pins:
            _check_pins(suite, block, ("blocks", index, "pins"), made, connector)
        areas += made
    areas += _step_areas(universe, suite)
    for index, glob in enumerate(document.include):
        areas += _include_areas(universe, Rule("include", place("include", index), glob))
    if document.properties:
        areas += property_areas(catalog, suite, areas, lambda rule: list(_touching(universe, areas, suite.name, rule)))
    excludes: list[Box] = []
    for index, exclusion in enumerate(document.exclude):
        for number, glob in enumerate(exclusion.tests):
            rule = Rule("exclude", place("exclude", index, "tests", number), glob, exclusion.reason.strip())
            touching = list(_touching(universe, areas, suite.name, rule))
            excludes += [_with_properties(universe, box) for box in touching] if document.properties else touching
    expects: list[Box] = []
    for index, expectation in enumerate(document.expect):
        for rule in _expectation_rules(suite, expectation, index):
            expects += _touching(universe, areas, suite.name, rule)
    weak_fails = place("weak") if document.weak == "fail" else ""
    expansion = Expansion(
        suite.name, universe, connector, areas, excludes=excludes, expects=expects, weak_fails=weak_fails
    )
    if derived:
        check_properties(expansion)
        _check_expectations(expansion)
    return expansion


def _with_properties(universe: Universe, box: Box) -> Box:
    """A test that is left out takes its properties along."""
    return replace(box, workloads=box.workloads | universe.having(box.workloads))


def varied(suite: Entry[Suite], pins: Pins) -> Iterator[tuple[int, str]]:
    """What a person pins of the components whose releases a suite runs over: the number of the block, the component."""
    for index, block in enumerate(suite.document.blocks):
        for component in block.pins.keys() & pins.overrides.keys():
            yield index, component


def _free(suite: Entry[Suite], pins: Pins) -> None:
    """What a suite varies cannot be pinned beside it."""
    for index, component in varied(suite, pins):
        where = suite.source.position("blocks", index, "pins", component)
        releases = suite.document.blocks[index].pins[component]
        raise UsageError(
            f"--pin {component}: suite {suite.name} runs over its releases ({where}); "
            f"choose some by a glob: {suite.name} '**@{component}={releases[0] if releases else 'RELEASE'}'"
        )


def everything(
    catalog: Catalog, default: str = "smoke", pins: Pins | None = None, varied: tuple[str, ...] = NO_PINS
) -> Expansion:
    """All tests that the catalog can name, inside or outside of any suite; ``varied`` are pins in their identifiers.

    Tests that are in the suite ``default`` (where there is one) keep the expectations that it has for them, and what it
    varies may be pinned here.
    """
    suite = catalog.suites.get(default)
    usual = _expand(catalog, suite, pins) if suite else None
    if usual:
        varied = tuple(dict.fromkeys(usual.spelling(each) for each in varied))
    stated = [each.called for entry in catalog.suites.values() for each in entry.document.properties]
    universe = Universe(catalog, stated)
    areas = universe.everything(Rule("catalog", ""), varied)
    return Expansion(None, universe, Connector(catalog, pins), areas, default=usual)


def _block_areas(universe: Universe, suite: Entry[Suite], block: Block, key: Key) -> Iterator[Area]:
    """The areas of a block: one, or with ``zip`` one for each step that its axes make together.

    Zipped axes pair their entries, before globs are resolved: the first entry of each, then the second of each. A glob
    there stands for all its names at once.
    """
    position = suite.source.position(*key)
    lengths = {axis: len(entries) for axis, entries in block.zip.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{axis} has {length}" for axis, length in lengths.items())
        where = suite.source.position(*key, "zip")
        raise CatalogError(f"{where}: zipped axes advance together and need equal lengths: {counts}")
    for axis in block.zip:
        if axis in block.product:
            where = suite.source.position(*key, "zip", axis)
            raise CatalogError(f"{where}: axis {axis} is in product too; it can only be in one of them")
    rule = Rule("block", position, describe(block))
    fixed: dict[str, tuple[str, ...]] = {
        axis: _resolve(universe, suite, entries, (*key, "product", axis)) for axis, entries in block.product.items()
    }
    for index in range(max(lengths.values(), default=1) or 1):
        moving: dict[str, tuple[str, ...]] = {
            axis: _resolve(universe, suite, entries[index : index + 1], (*key, "zip", axis), first=index)
            for axis, entries in block.zip.items()
        }
        axes = fixed | moving
        columns = [axes.get(axis) or universe.axis(segment) for segment, axis in enumerate(SEGMENT_NAMES)]
        if all(columns):
            yield Area.of(columns, rule, _varied(block))


def _varied(block: Block) -> tuple[str, ...]:
    """The pins that a block varies, as its tests' identifiers end: ``llvm=19``, components in alphabetic order."""
    axes = [
        [f"{component}={release}" for release in dict.fromkeys(releases)]
        for component, releases in sorted(block.pins.items())
    ]
    return tuple(",".join(pairs) for pairs in product(*axes))


def _check_pins(suite: Entry[Suite], block: Block, key: Key, areas: Iterable[Area], connector: Connector) -> None:
    """Some road of a block uses what it varies: else all of its tests would be unsupported, and the run green."""
    asked, used = block.pins.keys(), set[str]()
    connects = False
    for area in areas:
        for cell in product(area.frameworks, area.pipelines, area.targets):
            for components in connector.uses(*cell):
                if asked <= components:
                    return
                used |= components
                connects = True
    if connects:
        idle = next((component for component in asked if component not in used), None)
        where = suite.source.position(*key, *([idle] if idle else []))
        what = idle or f"all of {listed(asked)}"
        raise CatalogError(f"{where}: no road of this block uses {what}: all of its tests would be unsupported")


def _resolve(
    universe: Universe, suite: Entry[Suite], entries: Sequence[str], key: Key, *, first: int = 0
) -> tuple[str, ...]:
    """The names that the axis at ``key`` lists, in its order, each once; ``first`` is the first entry's index there."""
    axis = str(key[-1])
    if not entries:
        raise CatalogError(f"{suite.source.position(*key)}: axis {axis} is empty; leave it out for all")
    segment = SEGMENT_NAMES.index(axis)
    found: dict[str, None] = {}
    for index, entry in enumerate(entries, first):
        names = universe.matching(segment, entry)
        matched = [name for name in universe.axis(segment) if name in names]
        if not matched and entry != "*":
            where = suite.source.position(*key, index)
            raise CatalogError(f"{where}: {unknown(axis, entry, universe.axis(segment))}")
        found.update(dict.fromkeys(matched))
    return tuple(found)


def _step_areas(universe: Universe, suite: Entry[Suite]) -> Iterator[Area]:
    """The IR tests of the steps that a suite lists."""
    for index, entry in enumerate(suite.document.steps):
        position = suite.source.position("steps", index)
        steps = universe.steps_matching(entry)
        if not steps and entry != "*":
            raise CatalogError(f"{position}: {unknown('step with IR tests', entry, universe.steps_matching('*'))}")
        for step in steps:
            yield ir_area(step, universe.cases(step), Rule("steps", position, entry))


def _include_areas(universe: Universe, rule: Rule) -> list[Area]:
    areas = [area for box in _boxes(universe, rule) for area in universe.areas(box, rule)]
    if not areas:
        why = universe.why_nothing(rule.text)
        if "@" in rule.text and universe.knows(_boxes(universe, rule)):
            why = "tests with pins come from a block with 'pins'"
        elif OF in rule.text:
            why = "tests with a property come from 'properties'"
        raise CatalogError(f"{rule.position}: include {rule.text} matches nothing: {why}")
    return areas


def _touching(universe: Universe, areas: Iterable[Area], name: str, rule: Rule) -> Iterator[Box]:
    """The boxes of a rule that meet the suite's tests; there must be one."""
    found = False
    for box in _boxes(universe, rule):
        if any(area.touches(box) for area in areas):
            found = True
            yield box
    if not found:
        why = universe.why_nothing(rule.text)
        if universe.knows(_boxes(universe, rule)):
            why = f"the tests that it names are not in suite {name}"
            if "@" in rule.text:
                why = f"suite {name} has no such tests with these pins"
        raise CatalogError(f"{rule.position}: {rule.kind} {rule.text} matches nothing: {why}")


def _boxes(universe: Universe, rule: Rule) -> tuple[Box, ...]:
    try:
        return universe.boxes(rule.text, rule)
    except PatternError as error:
        raise CatalogError(f"{rule.position}: {error}") from None


def _expectation_rules(suite: Entry[Suite], expectation: Expectation, index: int) -> Iterator[Rule]:
    place = suite.source.position
    never = NEVER_EXPECTED.get(expectation.outcome)
    if never:
        raise CatalogError(f"{place('expect', index, 'outcome')}: {expectation.outcome} cannot be expected: {never}")
    for number, glob in enumerate(expectation.tests):
        yield Rule(
            "expect",
            place("expect", index, "tests", number),
            glob,
            expectation.reason.strip(),
            expectation.outcome,
            expectation.link,
        )


def _check_expectations(expansion: Expansion) -> None:
    """Each expectation must speak about a test that can run, and no two may expect different outcomes of one test."""
    idle = {box.rule: "" for box in expansion.expects}
    for row in walk(expansion.areas, expansion.expects, (*expansion.expects, *expansion.excludes)):
        expects = [box for box in row.marks if box.rule.kind == "expect"]
        if len({box.rule.outcome for box in expects}) > 1 or any(box.rule in idle for box in expects):
            _check_row(expansion, row, expects, idle)
    for rule, why in idle.items():
        raise CatalogError(f"{rule.position}: expectation {rule.text} speaks about no test that can run: {why}")


def _check_row(expansion: Expansion, row: Row, expects: Sequence[Box], idle: dict[Rule, str]) -> None:
    """Check the tests of one row: rules that speak about any leave ``idle``; for others it learns why they do not."""
    excludes = [box for box in row.marks if box.rule.kind == "exclude"]
    for workload in row.column:
        rules = [box.rule for box in expects if workload in box.workloads]
        why = _why_out(expansion, row, workload, excludes)
        for rule in rules:
            if not why:
                idle.pop(rule, None)
            elif rule in idle:
                idle[rule] = why
        other = next((rule for rule in rules if rule.outcome != rules[0].outcome), None)
        if other and not why:
            raise CatalogError(
                f"{other.position}: {other.text} expects {other.outcome} of {row.name(workload)}, "
                f"but {rules[0].position}: {rules[0].text} expects {rules[0].outcome}; a test has one expected outcome"
            )


def _why_out(expansion: Expansion, row: Row, workload: str, excludes: Sequence[Box]) -> str:
    """Why a test of a row cannot run; empty where it can."""
    for box in excludes:
        if workload in box.workloads:
            return f"{box.rule.position} leaves {row.name(workload)} out"
    if row.area.is_ir:
        return ""
    return expansion.why_unsupported(row, workload)


def describe(block: Block) -> str:
    """A block in one line, for messages."""
    parts = [f"{axis}: {', '.join(names)}" for axis, names in block.product.items()]
    parts += [f"{axis} (zipped): {', '.join(names)}" for axis, names in block.zip.items()]
    parts += [f"{component}: {', '.join(releases)}" for component, releases in block.pins.items()]
    return "; ".join(parts) or "all"
