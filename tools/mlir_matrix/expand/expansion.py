"""Expand a suite or the whole catalog: count and list tests by cell and column; build single tests on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.pins import PINS_MARK, read_pins
from mlir_matrix.errors import UsageError
from mlir_matrix.expand.properties import TestProperty, resolve_property
from mlir_matrix.expand.recipes import ResolvedStep, Unsupported
from mlir_matrix.expand.routes import Connector, Route
from mlir_matrix.expand.test_sets import (
    IR_TARGET,
    CellTests,
    Columns,
    Namespace,
    Rule,
    TestKey,
    TestPattern,
    TestProduct,
    walk,
)
from mlir_matrix.names import OF


@dataclass(frozen=True, slots=True)
class Test:
    """A workload in a cell, or an IR test of a step, with the reason why it is selected or not."""

    #: For pytest, which would take the name for one of its own.
    __test__: ClassVar[bool] = False

    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    #: What the suite varies: ``llvm=19``; empty where it varies nothing.
    pins: str
    #: None for IR tests (the step is ``pipeline``, the case ``workload``) and for tests that are not selected.
    route: Route | None
    #: What the step of an IR test is.
    resolved_step: ResolvedStep | None
    #: ``unsupported`` where that is already known, else None.
    outcome: Outcome | None
    #: ``in by FILE:LINE:COLUMN``, why it is unsupported, or who left it out and why.
    reason: str
    #: The ``expect`` rule that holds for it.
    expectation: Rule | None
    #: True for what can run: neither unsupported nor left out.
    selected: bool
    #: What must hold between runs, where that is the test.
    tested_property: TestProperty | None = None
    #: Where a suite says that a weak pass, which a trivial output would be, too, is a failure; empty where none does.
    weak_fails: str = ""

    @property
    def cell(self) -> str:
        """The identifier of its cell, with the pins that the suite varies."""
        return f"{self.framework}/{self.pipeline}/{self.target}{f'@{self.pins}' if self.pins else ''}"

    @property
    def called(self) -> str:
        """The workload, with the property where the test is of one: ``matmul~scaling``."""
        return f"{self.workload}{OF}{self.tested_property.name}" if self.tested_property else self.workload

    @property
    def excluded(self) -> bool:
        """True for what an exclusion left out."""
        return not self.selected and self.outcome is None

    @property
    def is_ir(self) -> bool:
        """True for the IR test of a step, which is checked and not run."""
        return self.target == IR_TARGET


class Expansion:
    """The tests of a suite, in its order. A value: every question is answered from the same rules."""

    def __init__(
        self,
        name: str | None,
        namespace: Namespace,
        connector: Connector,
        products: Sequence[TestProduct],
        *,
        excludes: Sequence[TestPattern] = (),
        expects: Sequence[TestPattern] = (),
        default: Expansion | None = None,
        weak_fails: str = "",
    ) -> None:
        """``name`` is None for the whole catalog; then ``default`` gives what is expected of the tests that are in it."""
        self.name = name
        self.namespace = namespace
        self.connector = connector
        self.products = tuple(products)
        self.excludes = tuple(excludes)
        self.expects = tuple(expects)
        self.default = default
        self.weak_fails = weak_fails

    def count(self, selector: Sequence[TestPattern] | None = None) -> int:
        """Count the tests that are in, unsupported ones included."""
        return sum(len(cell_tests.column) for cell_tests in self._kept(selector))

    def ids(self, selector: Sequence[TestPattern] | None = None) -> Iterator[str]:
        """Return the identifiers of the tests that are in, unsupported ones included."""
        return chain.from_iterable(map(_ids, self._kept(selector)))

    def tests(self, selector: Sequence[TestPattern] | None = None, *, excluded: bool = False) -> Iterator[Test]:
        """Return the tests that are in; with ``excluded``, also those left out, each in its place."""
        expects = self.expects if self.default is None else self.default.expects
        for cell_tests in walk(self.products, selector, (*self.excludes, *expects)):
            yield from self._tests(cell_tests, excluded)

    def test(self, identifier: str) -> Test | None:
        """Return a test by its identifier, excluded or not; None where no rule includes it."""
        return next(self.tests(self.namespace.exact(self.spelled(identifier)), excluded=True), None)

    def spelled(self, glob: str) -> str:
        """A glob or an identifier with the pins that a person gives as its tests have them.

        ``@llvm=19.1.7`` names the tests of a suite that says 19. What names no releases stays as it is.
        """
        test, mark, pins = glob.partition(PINS_MARK)
        return f"{test}{mark}{self.spelling(pins)}" if pins else glob

    def spelling(self, pins: str) -> str:
        """Pins as the tests have them."""
        meant = None if pins in self._varied else self._meaning(pins)
        return next((own for own, means in self._varied.items() if meant and means == meant), pins)

    @cached_property
    def _varied(self) -> dict[str, frozenset[tuple[str, str]] | None]:
        return {pins: self._meaning(pins) for product in self.products for pins in product.pins if pins}

    def _meaning(self, pins: str) -> frozenset[tuple[str, str]] | None:
        """The releases in full that pins name, in whatever order; None where they name none."""
        try:
            return frozenset(read_pins(self.connector.catalog, pins.split(",")).items())
        except UsageError:
            return None

    def has(self, test: TestKey) -> bool:
        """Return whether a test is in: included by a rule, and not excluded."""
        return any(test in product for product in self.products) and not any(
            test in pattern for pattern in self.excludes
        )

    def _kept(self, selector: Sequence[TestPattern] | None) -> Iterator[CellTests]:
        """The rows without what is left out; an empty row may be among them."""
        columns = Columns()
        for cell_tests in walk(self.products, selector, self.excludes):
            yield (
                replace(cell_tests, column=columns.drop(cell_tests.column, cell_tests.marks))
                if cell_tests.marks
                else cell_tests
            )

    def _tests(self, cell_tests: CellTests, excluded: bool) -> Iterator[Test]:
        framework, pipeline, target, pins = (
            cell_tests.framework,
            cell_tests.pipeline,
            cell_tests.target,
            cell_tests.pins,
        )
        make = _Maker(cell_tests)
        drops = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "exclude"]
        expects = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "expect"]
        reason = why_in(cell_tests.product.rule)
        for workload in cell_tests.column:
            drop = _first(drops, workload)
            if drop is not None:
                if excluded:
                    yield make(workload, reason=f"left out by {drop.position}: {drop.reason}")
                continue
            found, tested_property = self._found(cell_tests, workload)
            if isinstance(found, Unsupported):
                yield make(workload, reason=found.reason, outcome=Outcome.UNSUPPORTED)
                continue
            expectation = _first(expects, workload)
            if expectation and self.default and not self.default.has((framework, pipeline, target, workload, pins)):
                expectation = None
            yield make(
                workload, reason=reason, found=found, expectation=expectation, selected=True, tested_property=tested_property,
                weak_fails=self._weak_fails((framework, pipeline, target, workload, pins)),
            )  # fmt: skip

    def _weak_fails(self, test: TestKey) -> str:
        """Where a weak pass of a test is said to be a failure: in its suite, or in the default one where that has it."""
        if self.default is None:
            return self.weak_fails
        return self.default.weak_fails if self.default.weak_fails and self.default.has(test) else ""

    def why_unsupported(self, cell_tests: CellTests, called: str) -> str:
        """Return why a test of a row is unsupported, excluded or not; empty where it is supported."""
        found = self._found(cell_tests, called)[0]
        return found.reason if isinstance(found, Unsupported) else ""

    def _found(
        self, cell_tests: CellTests, called: str
    ) -> tuple[Route | ResolvedStep | Unsupported, TestProperty | None]:
        """What a test of a row takes, and the property that it is of; ``called`` is its name in the column."""
        framework, pipeline, target, pins = (
            cell_tests.framework,
            cell_tests.pipeline,
            cell_tests.target,
            cell_tests.pins,
        )
        if target == IR_TARGET:
            return self.connector.resolved_step(pipeline, pins), None
        suite_property = cell_tests.product.suite_property
        if suite_property is None:
            return self.connector.route(framework, pipeline, target, called, pins), None
        workload = called.partition(OF)[0]
        route = self.connector.route(framework, pipeline, target, workload, pins)
        if isinstance(route, Unsupported):
            return route, None
        tested_property = resolve_property(
            self.connector, suite_property, (framework, pipeline, target, workload, pins), route
        )
        return (tested_property, None) if isinstance(tested_property, Unsupported) else (route, tested_property)


def why_in(rule: Rule) -> str:
    """Return the reason of a test that is selected."""
    return f"in by {rule.position}" if rule.position else "in the catalog"


class _Maker:
    """Makes the tests of one row, which share their cell and pins."""

    def __init__(self, cell_tests: CellTests) -> None:
        self._prefix = f"{cell_tests.framework}/{cell_tests.pipeline}/{cell_tests.target}/"
        self._cell = (cell_tests.framework, cell_tests.pipeline, cell_tests.target)
        self._pins, self._suffix = cell_tests.pins, cell_tests.suffix
        self._relation = (
            TestProperty.of(cell_tests.product.suite_property) if cell_tests.product.suite_property else None
        )

    def __call__(
        self,
        workload: str,
        *,
        reason: str,
        found: Route | ResolvedStep | None = None,
        outcome: Outcome | None = None,
        expectation: Rule | None = None,
        selected: bool = False,
        tested_property: TestProperty | None = None,
        weak_fails: str = "",
    ) -> Test:
        name = self._prefix + workload + self._suffix
        route, resolved_step = (None, found) if isinstance(found, ResolvedStep) else (found, None)
        if self._relation:
            workload, tested_property = workload.partition(OF)[0], tested_property or self._relation
        return Test(
            name, *self._cell, workload, self._pins, route, resolved_step, outcome, reason, expectation, selected, tested_property,
            weak_fails,
        )  # fmt: skip


def _first(patterns: Sequence[TestPattern], workload: str) -> Rule | None:
    """The first rule, in the suite's order, whose pattern holds the workload; the cell is known to match."""
    for pattern in patterns:
        if workload in pattern.workloads:
            return pattern.rule
    return None


def _ids(cell_tests: CellTests) -> list[str]:
    prefix, suffix = f"{cell_tests.framework}/{cell_tests.pipeline}/{cell_tests.target}/", cell_tests.suffix
    return [prefix + name + suffix for name in cell_tests.column]
