"""Check the files of a catalog against each other."""

from __future__ import annotations

from dataclasses import replace

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.expand.checks import costs, kinds, machines, programs, recipes, tests, tolerances, toolchains
from mlir_matrix.expand.checks.checker import Checker


def validate(catalog: Catalog, *, stale_goldens: bool = False) -> Catalog:
    """Return the catalog without suites that exceed a limit and machines that are wrong; ``over`` has the reasons.

    ``stale_goldens``: accept stale goldens.

    Raise CatalogError, with a line for each problem, if its files contradict each other.
    """
    problems = Problems()
    checker = Checker(catalog, problems)
    toolchains.check(checker)
    kinds.check(checker)
    recipes.check(checker)
    tests.check(checker)
    machines.check(checker)
    tolerances.check(checker)
    costs.check(checker)
    problems.raise_if_any()
    if not stale_goldens:
        tests.check_goldens(checker)
        problems.raise_if_any()
    if not problems.over:
        return catalog
    suites = {name: entry for name, entry in catalog.suites.items() if ("suites", name) not in problems.over}
    usable = {name: entry for name, entry in catalog.machines.items() if ("machines", name) not in problems.over}
    return replace(catalog, suites=suites, machines=usable, over={**catalog.over, **problems.over})


def validate_sources(catalog: Catalog) -> None:
    """Check the files that list the members of corpora, as :func:`validate` does, but no suites."""
    problems = Problems()
    checker = Checker(catalog, problems)
    toolchains.check(checker)
    programs.check(checker)
    problems.raise_if_any()
