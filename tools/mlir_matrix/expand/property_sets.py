"""From what a suite says of properties to products of tests. What is wrong with a property is found here, as in :mod:`expand`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.suites import Suite
from mlir_matrix.errors import CatalogError
from mlir_matrix.expand.expansion import Expansion
from mlir_matrix.expand.properties import selfish, senseless
from mlir_matrix.expand.test_sets import Rule, SuiteProperty, TestPattern, TestProduct
from mlir_matrix.names import OF

#: The patterns of a rule that meet the suite's tests; raises CatalogError where there are none.
Touching = Callable[[Rule], Iterable[TestPattern]]


def property_products(
    catalog: Catalog, suite: Entry[Suite], products: Sequence[TestProduct], touching: Touching
) -> list[TestProduct]:
    """The tests with properties of a suite whose other tests are ``products``."""
    found: list[TestProduct] = []
    for index, document in enumerate(suite.document.properties):
        position = suite.source.position("properties", index)
        suite_property = SuiteProperty(name=document.called, property_kind=document.property_kind, position=position)
        for number, glob in enumerate(document.tests):
            where = suite.source.position("properties", index, "tests", number)
            rule = Rule("property", where, glob, document.reason.strip())
            made = list(_having(products, suite_property, touching(rule)))
            if not made:
                raise CatalogError(f"{where}: property {glob} matches IR tests alone, which are checked and not run")
            for product in made:
                _check_product(catalog, product, suite_property)
            found += made
    _check_names(found)
    return found


def _having(
    products: Iterable[TestProduct], suite_property: SuiteProperty, patterns: Iterable[TestPattern]
) -> Iterator[TestProduct]:
    for pattern in patterns:
        for product in products:
            if not product.is_ir and (made := product.having(suite_property, pattern)):
                yield made


def _check_product(catalog: Catalog, product: TestProduct, suite_property: SuiteProperty) -> None:
    """A property says something of each of its tests."""
    why = selfish(suite_property.property_kind, (product.frameworks, product.pipelines, product.targets))
    if why:
        raise CatalogError(f"{suite_property.position}: property {suite_property.name}: {why}")
    for name in product.column:
        workload = name.partition(OF)[0]
        why = senseless(catalog.workloads[workload].document, suite_property.property_kind)
        if why:
            raise CatalogError(
                f"{suite_property.position}: property {suite_property.name} of workload {workload}: {why}"
            )


def _check_names(products: Sequence[TestProduct]) -> None:
    """No test has two properties of one name."""
    for number, product in enumerate(products):
        for other in products[:number]:
            assert product.suite_property is not None
            assert other.suite_property is not None
            if other.suite_property.position != product.suite_property.position and (name := _shared(product, other)):
                raise CatalogError(
                    f"{product.suite_property.position}: {name} has a property of this name by {other.suite_property.position}; "
                    "give one of them another 'name'"
                )


def _shared(product: TestProduct, other: TestProduct) -> str:
    """The identifier of a test that is in both, without its pins; empty where there is none."""
    axes = zip(
        (product.frameworks, product.pipelines, product.targets, product.column, product.pins),
        (other.frameworks, other.pipelines, other.targets, other.column, other.pins),
        strict=True,
    )
    common = [next((name for name in mine if name in theirs), None) for mine, theirs in axes]
    return "" if None in common else "/".join(map(str, common[:4]))


def check_properties(expansion: Expansion) -> None:
    """Each pattern of a property must speak about a test that can run: else all would be unsupported, and the run green."""
    idle: dict[Rule, str] = {product.rule: "" for product in expansion.products if product.suite_property}
    if not idle:
        return
    patterns = [
        TestPattern.of(map(frozenset, _axes(product)), product.rule)
        for product in expansion.products
        if product.suite_property
    ]
    for test in expansion.tests(patterns, excluded=True):
        key = (test.framework, test.pipeline, test.target, test.called, test.pins)
        for rule in dict.fromkeys(
            product.rule for product in expansion.products if product.rule in idle and key in product
        ):
            if test.selected:
                idle.pop(rule)
            else:
                idle[rule] = f"{test.id} is {test.outcome or 'out'}: {test.reason}"
        if not idle:
            return
    for rule, why in idle.items():
        raise CatalogError(f"{rule.position}: property {rule.text} speaks about no test that can run: {why}")


def _axes(product: TestProduct) -> tuple[tuple[str, ...], ...]:
    return product.frameworks, product.pipelines, product.targets, product.column
