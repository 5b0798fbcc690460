"""Check the files of a catalog against each other."""

from __future__ import annotations

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.problems import Problems
from mlir_matrix.validation import recipes, tests, tolerances, toolchains
from mlir_matrix.validation.checker import Checker


def validate(catalog: Catalog) -> Catalog:
    """Return the catalog. Raise CatalogError, with a line for each problem, where its files contradict each other."""
    problems = Problems()
    checker = Checker(catalog, problems)
    toolchains.check(checker)
    recipes.check(checker)
    tests.check(checker)
    tolerances.check(checker)
    problems.raise_if_any()
    return catalog
