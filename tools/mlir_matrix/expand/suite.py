"""From a suite's rules to its tests. What is wrong with a rule is found here, by set operations on names.

The order of things: blocks, then ``steps``, then ``include`` put tests in, and ``properties`` more of them; ``exclude``
takes any of them out, a test with all its properties; of what is left, ``expect`` speaks about those that can run. A test
that several rules put in belongs to the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.suites import Block, Expectation, Suite
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.errors import CatalogError, UsageError
from mlir_matrix.expand.expansion import Expansion
from mlir_matrix.expand.property_sets import check_properties, property_products
from mlir_matrix.expand.routes import Connector, word_list
from mlir_matrix.expand.test_sets import (
    NO_PINS,
    CellTests,
    Namespace,
    Rule,
    TestPattern,
    TestProduct,
    ir_product,
    unknown,
    walk,
)
from mlir_matrix.names import OF, SEGMENT_NAMES, PatternError

YamlPath = tuple[str | int, ...]
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
    namespace = Namespace(catalog, [suite_property.called for suite_property in document.properties])
    connector = Connector(catalog, pins)
    products: list[TestProduct] = []
    derived = pins is None or not (pins.overrides or pins.swaps)
    for index, block in enumerate(document.blocks):
        made = list(_block_products(namespace, suite, block, ("blocks", index)))
        if derived and block.pins:
            _check_pins(suite, block, ("blocks", index, "pins"), made, connector)
        products += made
    products += _step_products(namespace, suite)
    for index, glob in enumerate(document.include):
        products += _include_products(namespace, Rule("include", place("include", index), glob))
    if document.properties:
        products += property_products(
            catalog, suite, products, lambda rule: list(_touching(namespace, products, suite.name, rule))
        )
    excludes: list[TestPattern] = []
    for index, exclusion in enumerate(document.exclude):
        for number, glob in enumerate(exclusion.tests):
            rule = Rule("exclude", place("exclude", index, "tests", number), glob, exclusion.reason.strip())
            touching = list(_touching(namespace, products, suite.name, rule))
            excludes += (
                [_with_properties(namespace, pattern) for pattern in touching] if document.properties else touching
            )
    expects: list[TestPattern] = []
    for index, expectation in enumerate(document.expect):
        for rule in _expectation_rules(suite, expectation, index):
            expects += _touching(namespace, products, suite.name, rule)
    weak_fails = place("weak") if document.weak == "fail" else ""
    expansion = Expansion(
        suite.name, namespace, connector, products, excludes=excludes, expects=expects, weak_fails=weak_fails
    )
    if derived:
        check_properties(expansion)
        _check_expectations(expansion)
    return expansion


def _with_properties(namespace: Namespace, pattern: TestPattern) -> TestPattern:
    """A test that is left out takes its properties along."""
    return replace(pattern, workloads=pattern.workloads | namespace.having(pattern.workloads))


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
    suite_property = [each.called for entry in catalog.suites.values() for each in entry.document.properties]
    namespace = Namespace(catalog, suite_property)
    products = namespace.everything(Rule("catalog", ""), varied)
    return Expansion(None, namespace, Connector(catalog, pins), products, default=usual)


def _block_products(namespace: Namespace, suite: Entry[Suite], block: Block, key: YamlPath) -> Iterator[TestProduct]:
    """The products of a block: one, or with ``zip`` one for each step that its axes make together.

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
        axis: _resolve(namespace, suite, entries, (*key, "product", axis)) for axis, entries in block.product.items()
    }
    for index in range(max(lengths.values(), default=1) or 1):
        moving: dict[str, tuple[str, ...]] = {
            axis: _resolve(namespace, suite, entries[index : index + 1], (*key, "zip", axis), first=index)
            for axis, entries in block.zip.items()
        }
        axes = fixed | moving
        columns = [axes.get(axis) or namespace.axis(segment) for segment, axis in enumerate(SEGMENT_NAMES)]
        if all(columns):
            yield TestProduct.of(columns, rule, _varied(block))


def _varied(block: Block) -> tuple[str, ...]:
    """The pins that a block varies, as its tests' identifiers end: ``llvm=19``, components in alphabetic order."""
    axes = [
        [f"{component}={release}" for release in dict.fromkeys(releases)]
        for component, releases in sorted(block.pins.items())
    ]
    return tuple(",".join(pairs) for pairs in itertools.product(*axes))


def _check_pins(
    suite: Entry[Suite], block: Block, key: YamlPath, products: Iterable[TestProduct], connector: Connector
) -> None:
    """Some route of a block uses what it varies: else all of its tests would be unsupported, and the run green."""
    asked, used = block.pins.keys(), set[str]()
    connects = False
    for product in products:
        for cell in itertools.product(product.frameworks, product.pipelines, product.targets):
            for components in connector.uses(*cell):
                if asked <= components:
                    return
                used |= components
                connects = True
    if connects:
        idle = next((component for component in asked if component not in used), None)
        where = suite.source.position(*key, *([idle] if idle else []))
        what = idle or f"all of {word_list(asked)}"
        raise CatalogError(f"{where}: no route of this block uses {what}: all of its tests would be unsupported")


def _resolve(
    namespace: Namespace, suite: Entry[Suite], entries: Sequence[str], key: YamlPath, *, first: int = 0
) -> tuple[str, ...]:
    """The names that the axis at ``key`` lists, in its order, each once; ``first`` is the first entry's index there."""
    axis = str(key[-1])
    if not entries:
        raise CatalogError(f"{suite.source.position(*key)}: axis {axis} is empty; leave it out for all")
    segment = SEGMENT_NAMES.index(axis)
    found: dict[str, None] = {}
    for index, entry in enumerate(entries, first):
        names = namespace.matching(segment, entry)
        matched = [name for name in namespace.axis(segment) if name in names]
        if not matched and entry != "*":
            where = suite.source.position(*key, index)
            raise CatalogError(f"{where}: {unknown(axis, entry, namespace.axis(segment))}")
        found.update(dict.fromkeys(matched))
    return tuple(found)


def _step_products(namespace: Namespace, suite: Entry[Suite]) -> Iterator[TestProduct]:
    """The IR tests of the steps that a suite lists."""
    for index, entry in enumerate(suite.document.steps):
        position = suite.source.position("steps", index)
        steps = namespace.steps_matching(entry)
        if not steps and entry != "*":
            raise CatalogError(f"{position}: {unknown('step with IR tests', entry, namespace.steps_matching('*'))}")
        for step in steps:
            yield ir_product(step, namespace.cases(step), Rule("steps", position, entry))


def _include_products(namespace: Namespace, rule: Rule) -> list[TestProduct]:
    products = [product for pattern in _boxes(namespace, rule) for product in namespace.products(pattern, rule)]
    if not products:
        why = namespace.why_nothing(rule.text)
        if "@" in rule.text and namespace.knows(_boxes(namespace, rule)):
            why = "tests with pins come from a block with 'pins'"
        elif OF in rule.text:
            why = "tests with a property come from 'properties'"
        raise CatalogError(f"{rule.position}: include {rule.text} matches nothing: {why}")
    return products


def _touching(namespace: Namespace, products: Iterable[TestProduct], name: str, rule: Rule) -> Iterator[TestPattern]:
    """The patterns of a rule that meet the suite's tests; there must be one."""
    found = False
    for pattern in _boxes(namespace, rule):
        if any(product.touches(pattern) for product in products):
            found = True
            yield pattern
    if not found:
        why = namespace.why_nothing(rule.text)
        if namespace.knows(_boxes(namespace, rule)):
            why = f"the tests that it names are not in suite {name}"
            if "@" in rule.text:
                why = f"suite {name} has no such tests with these pins"
        raise CatalogError(f"{rule.position}: {rule.kind} {rule.text} matches nothing: {why}")


def _boxes(namespace: Namespace, rule: Rule) -> tuple[TestPattern, ...]:
    try:
        return namespace.patterns(rule.text, rule)
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
    idle = {pattern.rule: "" for pattern in expansion.expects}
    for cell_tests in walk(expansion.products, expansion.expects, (*expansion.expects, *expansion.excludes)):
        expects = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "expect"]
        if len({pattern.rule.outcome for pattern in expects}) > 1 or any(pattern.rule in idle for pattern in expects):
            _check_row(expansion, cell_tests, expects, idle)
    for rule, why in idle.items():
        raise CatalogError(f"{rule.position}: expectation {rule.text} speaks about no test that can run: {why}")


def _check_row(
    expansion: Expansion, cell_tests: CellTests, expects: Sequence[TestPattern], idle: dict[Rule, str]
) -> None:
    """Check the tests of one row: rules that speak about any leave ``idle``; for others it learns why they do not."""
    excludes = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "exclude"]
    for workload in cell_tests.column:
        rules = [pattern.rule for pattern in expects if workload in pattern.workloads]
        why = _why_out(expansion, cell_tests, workload, excludes)
        for rule in rules:
            if not why:
                idle.pop(rule, None)
            elif rule in idle:
                idle[rule] = why
        other = next((rule for rule in rules if rule.outcome != rules[0].outcome), None)
        if other and not why:
            raise CatalogError(
                f"{other.position}: {other.text} expects {other.outcome} of {cell_tests.name(workload)}, "
                f"but {rules[0].position}: {rules[0].text} expects {rules[0].outcome}; a test has one expected outcome"
            )


def _why_out(expansion: Expansion, cell_tests: CellTests, workload: str, excludes: Sequence[TestPattern]) -> str:
    """Why a test of a row cannot run; empty where it can."""
    for pattern in excludes:
        if workload in pattern.workloads:
            return f"{pattern.rule.position} leaves {cell_tests.name(workload)} out"
    if cell_tests.product.is_ir:
        return ""
    return expansion.why_unsupported(cell_tests, workload)


def describe(block: Block) -> str:
    """A block in one line, for messages."""
    parts = [f"{axis}: {', '.join(names)}" for axis, names in block.product.items()]
    parts += [f"{axis} (zipped): {', '.join(names)}" for axis, names in block.zip.items()]
    parts += [f"{component}: {', '.join(releases)}" for component, releases in block.pins.items()]
    return "; ".join(parts) or "all"
