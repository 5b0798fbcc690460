"""Expand the properties of a suite to products of tests, and check that they make sense for these tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.names import split_property
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.suites import Suite
from mlir_matrix.expand.expansion import Expansion
from mlir_matrix.expand.properties import selfish, senseless
from mlir_matrix.expand.test_sets import Rule, TestPattern, TestProduct, TestProperty


def property_products(
    catalog: Catalog,
    suite: Entry[Suite],
    products: Sequence[TestProduct],
    stated: Iterable[tuple[int, Sequence[TestPattern]]],
) -> list[TestProduct]:
    """Return the tests with properties of a suite whose other tests are ``products``.

    ``stated``: the number of a property, and the patterns of one of its rules.
    """
    found: list[TestProduct] = []
    for index, patterns in stated:
        document, rule = suite.document.properties[index], patterns[0].rule
        position = suite.source.position("properties", index)
        suite_property = TestProperty(name=document.called, property_kind=document.property_kind, position=position)
        executed = [product for product in products if not product.is_ir]
        pairs = itertools.product(patterns, executed)
        made = [new for pattern, product in pairs if (new := product.having(suite_property, pattern))]
        if not made:
            raise CatalogError(f"{rule.position}: property {rule.text} matches only IR tests, which run no program")
        for product in made:
            _check_product(catalog, product, suite_property)
        found += made
    _check_names(found)
    return found


def _check_product(catalog: Catalog, product: TestProduct, suite_property: TestProperty) -> None:
    """Check that a property makes sense for each of its tests."""
    subject = f"{suite_property.position}: property {suite_property.name}"
    if why := selfish(suite_property.property_kind, product.axes[:3]):
        raise CatalogError(f"{subject}: {why}")
    for name in product.column:
        workload, _ = split_property(name)
        if why := senseless(catalog.workloads[workload].document, suite_property.property_kind):
            raise CatalogError(f"{subject} of workload {workload}: {why}")


def _check_names(products: Sequence[TestProduct]) -> None:
    """Check that no test has two properties of one name."""
    for other, product in itertools.combinations(products, 2):
        assert product.suite_property is not None
        assert other.suite_property is not None
        first, second = other.suite_property.position, product.suite_property.position
        axes = zip((*product.axes, product.pins), (*other.axes, other.pins), strict=True)
        common = [next(filter(theirs.__contains__, mine), None) for mine, theirs in axes]
        if first != second and None not in common:
            test = "/".join(map(str, common[:4]))
            raise CatalogError(
                f"{second}: {test} has a property of this name by {first}; give one of them another 'name'"
            )


def check_properties(expansion: Expansion) -> None:
    """Check that each pattern of a property applies to a test that can run. Otherwise all of its tests are unsupported."""
    products = [product for product in expansion.products if product.suite_property]
    idle: dict[Rule, str] = {product.rule: "" for product in products}
    if not idle:
        return
    patterns = []
    for product in products:
        first, second, third, fourth = map(frozenset, product.axes)
        patterns.append(TestPattern(first, second, third, fourth, product.rule))
    for test in expansion.tests(patterns, excluded=True):
        for rule in dict.fromkeys(
            product.rule for product in products if product.rule in idle and test.identity in product
        ):
            # A workload that exceeds a limit is no error of the suite.
            if test.selected or test.reason in expansion.connector.catalog.over.values():
                idle.pop(rule)
            else:
                idle[rule] = f"{test.id} is {test.outcome or 'out'}: {test.reason}"
        if not idle:
            return
    for rule, why in idle.items():
        raise CatalogError(f"{rule.position}: property {rule.text} applies to no test that can run: {why}")
