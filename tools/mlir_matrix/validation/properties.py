"""Check the properties of suites as far as names go; ``expand/properties`` checks their meaning."""

from __future__ import annotations

import math

from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.suites import KINDS, Agreement, Property, SameIr, Scaling, Suite
from mlir_matrix.catalog.yaml_reader import Key
from mlir_matrix.names import OF
from mlir_matrix.validation.checker import Checker


def check_properties(checker: Checker, suite: Entry[Suite]) -> None:
    """Check that each property has one kind, and that the names in it exist."""
    for index, stated in enumerate(suite.document.properties):
        at = ("properties", index)
        for number, pattern in enumerate(stated.tests):
            if OF in pattern:
                message = f"a property is one of tests without any: leave out '{OF}' and what follows"
                checker.wrong(suite, message, *at, "tests", number)
        if len(stated.kinds) != 1:
            has = f"has {' and '.join(stated.kinds)}" if stated.kinds else "has none"
            checker.wrong(suite, f"a property is one of {', '.join(KINDS)}; this one {has}", *at)
            continue
        _property_kind(checker, suite, stated, *at, stated.kinds[0])


def check_conflicts(checker: Checker, suite: Entry[Suite]) -> None:
    """Check that each listed conflict names two IR tests."""
    known = {f"mlir/{name}/ir/{case}" for name, step in checker.catalog.steps.items() for case in step.cases}
    for index, stated in enumerate(suite.document.conflicts):
        for number, test in enumerate(stated.tests):
            checker.known(suite, "IR test", test, known, "conflicts", index, "tests", number)
        if len(set(stated.tests)) == 1:
            checker.wrong(suite, "a test does not conflict with itself; name two", "conflicts", index, "tests")


def _property_kind(checker: Checker, suite: Entry[Suite], stated: Property, *at: Key) -> None:
    property_kind = stated.property_kind
    if isinstance(property_kind, Scaling):
        _factors(checker, suite, property_kind, *at)
    if isinstance(property_kind, (Agreement, SameIr)):
        _cell(checker, suite, property_kind, *at)
    if isinstance(property_kind, SameIr):
        checker.known(suite, "kind", property_kind.at, checker.catalog.kinds, *at, "at")


def _factors(checker: Checker, suite: Entry[Suite], property_kind: Scaling, *at: Key) -> None:
    for key, factors in (("inputs", property_kind.inputs), ("outputs", property_kind.outputs)):
        for name, factor in factors.items():
            if not factor or not math.isfinite(factor):
                checker.wrong(suite, f"a factor of {factor}; it is a finite number other than 0", *at, key, name)
    if all(factor == 1 for factor in property_kind.inputs.values()):
        checker.wrong(suite, "every factor is 1: nothing is scaled", *at, "inputs")


def _cell(checker: Checker, suite: Entry[Suite], property_kind: Agreement | SameIr, *at: Key) -> None:
    """Check that a property names another cell, and that its parts exist."""
    catalog = checker.catalog
    asked = {
        "framework": (property_kind.framework, catalog.frameworks),
        "pipeline": (property_kind.pipeline, catalog.pipelines),
    }
    known = (
        {"target": (property_kind.target, catalog.targets), **asked} if isinstance(property_kind, Agreement) else asked
    )
    if all(name is None for name, _ in known.values()):
        checker.wrong(
            suite, f"it names none of {', '.join(sorted(known))}: tests would be compared with themselves", *at
        )
    for what, (name, names) in known.items():
        if name is not None:
            checker.known(suite, what, name, names, *at, what)
