"""Expand the rules of a suite to its tests. Find contradictions among rules by set operations on names.

Rules apply in this order. Blocks, then ``steps``, then ``include`` select tests, and ``properties`` add more. ``exclude`` removes
tests, each with all its properties. ``expect`` applies to the remaining tests that can run. A test that several rules select
belongs to the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.names import SEGMENT_NAMES, TestId
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Catalog, Entry
from mlir_matrix.catalog.models.suites import Exclusion, Expectation, Property, Suite, SuiteBlock
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import CostRule, Expansion
from mlir_matrix.expand.property_sets import check_properties, property_products
from mlir_matrix.expand.routes import Connector, word_list
from mlir_matrix.expand.test_sets import NO_PINS, CellTests, Namespace, Rule, TestPattern, TestProduct, walk


def expand(catalog: Catalog, suite: Entry[Suite], pins: Pins | None = None) -> Expansion:
    """Return the tests of a suite. Raise CatalogError with the position of a rule that is wrong or applies to no test.

    ``pins`` come from the command line. Under them, rules may apply to no test.
    """
    for part, index, component in varied(catalog, suite, pins) if pins else ():
        where = part.source.position("blocks", index, "pins", component)
        releases = part.document.blocks[index].pins[component]
        raise UsageError(
            f"--pin {component}: suite {suite.name} runs over its releases ({where}); "
            f"choose some by a glob: {suite.name} '**@{component}={releases[0] if releases else 'RELEASE'}'"
        )
    return _expand(catalog, suite, pins)


def parts_of(catalog: Catalog, suite: Entry[Suite]) -> list[Entry[Suite]]:
    """Return a suite and all suites that it includes, directly or indirectly, each once."""
    found, left = {suite.name: suite}, [suite]
    for each in left:
        new = [name for name in dict.fromkeys(each.document.suites) if name in catalog.suites and name not in found]
        found |= {name: catalog.suites[name] for name in new}
        left += [catalog.suites[name] for name in new]
    return left


def namespace_of(catalog: Catalog, suites: Iterable[Entry[Suite]]) -> Namespace:
    """Return the names of a catalog, with those of the properties that these suites state."""
    return Namespace(catalog, [stated.called for suite in suites for stated in suite.document.properties])


def _expand(catalog: Catalog, suite: Entry[Suite], pins: Pins | None) -> Expansion:
    parts = parts_of(catalog, suite)
    namespace = namespace_of(catalog, parts)
    connector = Connector(catalog, pins)
    products: list[TestProduct] = []
    as_written = pins is None or not (pins.overrides or pins.swaps or pins.steps)
    for part in parts:
        products += _products(part, namespace, connector if as_written else None)
    selected = tuple(products)
    for part in parts:
        stated = [
            (index, _touching(namespace, selected, suite.name, rule))
            for index, rule in _rules(part, "properties", "property")
        ]
        products += property_products(catalog, part, selected, stated)
    excludes: list[TestPattern] = []
    for rule in [rule for part in parts for _, rule in _rules(part, "exclude", "exclude")]:
        for each in _touching(namespace, products, suite.name, rule):
            # An excluded test is excluded with all its properties.
            excludes.append(replace(each, workloads=each.workloads | namespace.having(each.workloads)))
    expects: list[TestPattern] = []
    for rule in [rule for part in parts for _, rule in _rules(part, "expect", "expect")]:
        expects += _touching(namespace, products, suite.name, rule)
    for part in parts:
        expects += _single_tests(catalog, part, products, suite.name)
    weak_fails = next((part.source.position("weak") for part in parts if part.document.weak == "fail"), "")
    expansion = Expansion(
        suite.name,
        namespace,
        connector,
        tuple(products),
        excludes=tuple(excludes),
        expects=tuple(expects),
        weak_fails=weak_fails,
        cost=_cost(parts),
    )
    if as_written:
        check_properties(expansion)
        _check_expectations(expansion)
    return expansion


def _products(suite: Entry[Suite], namespace: Namespace, connector: Connector | None) -> Iterator[TestProduct]:
    """Yield the tests that a suite's own rules select. ``connector``: check that routes use the components that it varies."""
    document, position = suite.document, suite.source.position
    for index, block in enumerate(document.blocks):
        made = list(block_products(namespace, block, position("blocks", index)))
        if connector and block.pins:
            _check_pins(suite, index, made, connector)
        yield from made
    for index, pattern in enumerate(document.steps):
        yield from namespace.ir_products(pattern, Rule("steps", position("steps", index), pattern))
    for index, glob in enumerate(document.include):
        yield from _include_products(namespace, Rule("include", position("include", index), glob))


def _cost(parts: Sequence[Entry[Suite]]) -> CostRule | None:
    """Return what a suite and those that it includes want to know of costs: ``fail`` if one of them has it."""
    asking = sorted((part for part in parts if part.document.cost), key=lambda part: part.document.cost != "fail")
    rules = [CostRule(part.document.cost == "fail", part.source.position("cost")) for part in asking]
    return rules[0] if rules else None


def varied(catalog: Catalog, suite: Entry[Suite], pins: Pins) -> Iterator[tuple[Entry[Suite], int, str]]:
    """Yield the pinned components whose releases a suite varies, each after the suite and the number of the block."""
    for part in parts_of(catalog, suite):
        for index, block in enumerate(part.document.blocks):
            for component in block.pins.keys() & pins.overrides.keys():
                yield part, index, component


def everything(
    catalog: Catalog, default: str = DEFAULT_SUITE, pins: Pins | None = None, varied: tuple[str, ...] = NO_PINS
) -> Expansion:
    """Return all tests that the catalog can name, in any suite or in none. ``varied`` are pins in identifiers.

    The expectations of the suite ``default``, if it exists, apply to all tests that they match, except those that it excludes.
    ``pins`` may pin components that this suite varies.
    """
    suite = catalog.suites.get(default)
    usual = _expand(catalog, suite, pins) if suite else None
    if usual:
        varied = tuple(dict.fromkeys(usual.spelling(each) for each in varied))
    namespace = namespace_of(catalog, catalog.suites.values())
    products = namespace.everything(Rule("catalog", ""), varied)
    return Expansion(None, namespace, Connector(catalog, pins), tuple(products), default=usual)


def block_products(namespace: Namespace, block: SuiteBlock, position: str) -> Iterator[TestProduct]:
    """Return the products of a block: one, or with ``zip`` one for each position of its axes.

    A block with ``steps`` has the IR tests of these steps instead of tests of cells.
    ``zip`` pairs the entries of its axes before it resolves globs: the first entry of each, then the second of each. A glob
    in an entry stands for all its names.
    """
    rule = Rule("block", position, describe(block))
    # The pins in the form of identifiers: ``llvm=19``, components in alphabetic order.
    releases = [[f"{name}={each}" for each in dict.fromkeys(given)] for name, given in sorted(block.pins.items())]
    pins = tuple(map(",".join, itertools.product(*releases)))
    for pattern in block.steps:
        yield from namespace.ir_products(pattern, rule, pins)
    for index in range(0 if block.steps else max(map(len, block.zip.values()), default=1)):
        entries: dict[str, tuple[str, ...]] = dict.fromkeys(SEGMENT_NAMES, ("*",))
        entries.update(block.product.items())
        entries.update((axis, names[index : index + 1]) for axis, names in block.zip.items())
        first, second, third, fourth = (
            _names(namespace, segment, names) for segment, names in enumerate(entries.values())
        )
        if first and second and third and fourth:
            yield TestProduct(first, second, third, fourth, rule, pins)


def _names(namespace: Namespace, segment: int, entries: Iterable[str]) -> tuple[str, ...]:
    """Return the names that an axis lists, in its order, each once."""
    found: dict[str, None] = {}
    for entry in entries:
        names = namespace.matching(segment, entry)
        names = namespace.outside(entry, names) if segment == len(SEGMENT_NAMES) - 1 else names
        found.update(dict.fromkeys(filter(names.__contains__, namespace.axis(segment))))
    return tuple(found)


def _check_pins(suite: Entry[Suite], index: int, products: Iterable[TestProduct], connector: Connector) -> None:
    """Check that some route of a block uses the components that it varies. Otherwise all of its tests are unsupported."""
    asked, used = suite.document.blocks[index].pins.keys(), set[str]()
    connects = False
    for product in products:
        for cell in itertools.product(product.frameworks, product.pipelines, product.targets):
            for components in [connector.step_components(cell[1])] if product.is_ir else connector.uses(*cell):
                if asked <= components:
                    return
                used |= components
                connects = True
    if connects:
        idle = next((component for component in asked if component not in used), None)
        where = suite.source.position("blocks", index, "pins", *([idle] if idle else []))
        what = idle or f"all of {word_list(asked)}"
        raise CatalogError(
            f"{where}: no route or step of this block uses {what}: all of its tests would be unsupported"
        )


def _include_products(namespace: Namespace, rule: Rule) -> list[TestProduct]:
    patterns = namespace.included(rule.text, rule)
    products = [product for pattern in patterns for product in namespace.products(pattern, rule)]
    if not products:
        why = (
            "pins come only from a block with 'pins'" if "@" in rule.text else "a property come only from 'properties'"
        )
        raise CatalogError(f"{rule.position}: include {rule.text} matches nothing: tests with {why}")
    return products


def _rules(
    suite: Entry[Suite], key: Literal["properties", "exclude", "expect"], kind: str
) -> Iterator[tuple[int, Rule]]:
    """Return a rule for each glob of the entries under a key, with the number of the entry."""
    entries: Sequence[Property | Exclusion | Expectation] = getattr(suite.document, key)
    for index, entry in enumerate(entries):
        outcome, link = (entry.outcome, entry.link) if isinstance(entry, Expectation) else (Outcome.PASS, None)
        for number, glob in enumerate(entry.tests):
            position = suite.source.position(key, index, "tests", number)
            yield index, Rule(kind, position, glob, entry.reason.strip(), outcome, link)


def _touching(namespace: Namespace, products: Sequence[TestProduct], suite: str, rule: Rule) -> list[TestPattern]:
    """Return the patterns of a rule that match tests of the suite. Raise CatalogError if none does."""
    patterns = namespace.patterns(rule.text, rule)
    found = [pattern for pattern in patterns if any(product.touches(pattern) for product in products)]
    if not found:
        why = f"the tests that it names are not in suite {suite}"
        if "@" in rule.text:
            why = f"suite {suite} has no such tests with these pins"
        raise CatalogError(f"{rule.position}: {rule.kind} {rule.text} matches nothing: {why}")
    return found


def _single_tests(
    catalog: Catalog, part: Entry[Suite], products: Sequence[TestProduct], suite: str
) -> Iterator[TestPattern]:
    """Yield a pattern for each cell, outcome and reason in a suite's file of expectations, with a rule for each test."""
    entry = catalog.expectations.get(part.name)
    if entry is None:
        return
    for index, group in enumerate(entry.document.expect):
        rules = {
            name: Rule(
                "expect", entry.source.position("expect", index, "tests", number), identifier, group.reason.strip(),
                group.outcome, group.link,
            )
            for number, (name, identifier) in enumerate(zip(group.tests, group.identifiers, strict=True))
        }  # fmt: skip
        *names, _, pins = TestId.in_cell(group.cell, "")
        first, second, third = (frozenset((name,)) for name in names)
        pattern = TestPattern(first, second, third, frozenset(rules), next(iter(rules.values())), pins.__eq__, rules)
        known = set[str]().union(*(product.column for product in products if product.touches(pattern)))
        for name, rule in rules.items():
            if name not in known:
                raise CatalogError(
                    f"{rule.position}: {rule.text} is no test of suite {suite}; `matrix expect {part.name} --write` takes it out"
                )
        yield pattern


def _check_expectations(expansion: Expansion) -> None:
    """Check that each expectation applies to a test that can run, and that no two expect different outcomes of a test."""
    idle = {rule: "" for pattern in expansion.expects for rule in pattern.rules}
    for cell_tests in walk(expansion.products, expansion.expects, (*expansion.expects, *expansion.excludes)):
        expects = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "expect"]
        rules = [rule for pattern in expects for rule in pattern.rules]
        if len({rule.outcome for rule in rules}) > 1 or any(rule in idle for rule in rules):
            _check_cell(expansion, cell_tests, expects, idle)
    for rule, why in idle.items():
        raise CatalogError(f"{rule.position}: expectation {rule.text} applies to no test that can run: {why}")


def _check_cell(
    expansion: Expansion, cell_tests: CellTests, expects: Sequence[TestPattern], idle: dict[Rule, str]
) -> None:
    """Check the tests of one cell. Remove rules that apply to a test from ``idle``, and add a reason for the others."""
    excludes = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "exclude"]
    over = set(expansion.connector.catalog.over.values())
    for workload in cell_tests.column:
        rules = [pattern.rule_of(workload) for pattern in expects if workload in pattern.workloads]
        if not rules:
            continue
        drop = next((pattern.rule for pattern in excludes if workload in pattern.workloads), None)
        why = f"{drop.position} leaves {cell_tests.test(workload)} out" if drop else ""
        why = why or expansion.why_unsupported(cell_tests, workload)
        for rule in rules:
            if not why or why in over:
                idle.pop(rule, None)
            elif rule in idle:
                idle[rule] = why
        other = next((rule for rule in rules if rule.outcome != rules[0].outcome), None)
        if other and not why:
            raise CatalogError(
                f"{other.position}: {other.text} expects {other.outcome} of {cell_tests.test(workload)}, "
                f"but {rules[0].position}: {rules[0].text} expects {rules[0].outcome}; a test has one expected outcome"
            )


def describe(block: SuiteBlock) -> str:
    """Describe a block in one line, for messages."""
    parts = [f"{axis}: {', '.join(names)}" for axis, names in block.product.items()]
    parts += [f"{axis} (zipped): {', '.join(names)}" for axis, names in block.zip.items()]
    parts += [f"steps: {', '.join(block.steps)}"] if block.steps else []
    parts += [f"{component}: {', '.join(releases)}" for component, releases in block.pins.items()]
    return "; ".join(parts) or "all"
