"""Check the files of machines."""

from __future__ import annotations

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.catalog.yaml_reader import Key
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.checks.tests import check_test_pattern
from mlir_matrix.expand.routes import X86_LEVELS
from mlir_matrix.expand.select import is_suite
from mlir_matrix.expand.suite import namespace_of


def check(checker: Checker) -> None:
    """Check all machines of the catalog. Leave out those that are wrong: each file is about one machine."""
    for machine in checker.catalog.machines.values():
        problems = Problems()
        problems.over = checker.problems.over
        _machine(Checker(checker.catalog, problems), machine)
        checker.problems.leave_out_if_any("machines", machine.name, problems)


def validate_machine(catalog: Catalog, machine: Entry[Machine]) -> None:
    """Check a machine from outside the catalog. Raise CatalogError."""
    problems = Problems()
    _machine(Checker(catalog, problems), machine)
    problems.raise_if_any()


def _machine(checker: Checker, machine: Entry[Machine]) -> None:
    has, wants = machine.document.has, machine.document.wants
    level = has.cpu.level
    if level is not None and (has.cpu.architecture == "x86_64") is not (level in X86_LEVELS):
        levels = f"its levels are {', '.join(X86_LEVELS)}" if has.cpu.architecture == "x86_64" else "it is of x86_64"
        checker.wrong(machine, f"{has.cpu.architecture} has no level '{level}'; {levels}", "has", "cpu", "level")
    for index, suite in enumerate(wants.suites):
        if is_suite(suite) and ("suites", suite) not in checker.problems.over:
            checker.known(machine, "suite", suite, checker.suites(), "wants", "suites", index)
    for component, release in wants.pins.items():
        at = ("wants", "pins", component)
        if checker.known(machine, "component", component, checker.catalog.components, *at):
            checker.release(machine, component, release, *at)
    for index, device in enumerate(wants.devices):
        if device not in has.devices:
            message = f"it grants {device}, which it does not have; add it to has: devices"
            checker.wrong(machine, message, "wants", "devices", index)
    _globs(checker, machine)


def _globs(checker: Checker, machine: Entry[Machine]) -> None:
    wants = machine.document.wants
    globs: list[tuple[str, tuple[Key, ...]]] = []
    for key, patterns in (("suites", wants.suites), ("require", wants.require), ("prefer", wants.prefer)):
        globs += [(glob, ("wants", key, index)) for index, glob in enumerate(patterns) if not is_suite(glob)]
    for number, rule in enumerate(wants.leave_out):
        at = ("wants", "leave-out", number, "match")
        globs += [(glob, (*at, index)) for index, glob in enumerate(rule.match)]
    if globs:
        namespace = namespace_of(checker.catalog, checker.catalog.suites.values())
        for glob, keys in globs:
            check_test_pattern(checker, machine, namespace, glob, *keys)
