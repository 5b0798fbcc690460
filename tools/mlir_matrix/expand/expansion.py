"""Expand a suite or the whole catalog: count and list tests by cell and column, and build single tests on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

from mlir_matrix.actions.outcomes import NotRun, Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import IR_TARGET, OF, TestId, split_pins, with_pins
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.expand.properties import resolve_property
from mlir_matrix.expand.recipes import ResolvedStep, Unsupported
from mlir_matrix.expand.routes import Connector, Route
from mlir_matrix.expand.test_sets import (
    CellTests,
    ColumnParts,
    Namespace,
    Rule,
    TestPattern,
    TestProduct,
    TestProperty,
    walk,
)


class CostRule(NamedTuple):
    """A suite's wish to count what its tests cost."""

    #: Whether a test that costs more than its golden fails.
    fails: bool
    position: str
    #: Whether to estimate cycles and to count operations, too, which takes as long as all else.
    detailed: bool = True


@dataclass(frozen=True, slots=True)
class Test:
    """A workload in a cell, or an IR test of a step, with the reason why it is selected or not."""

    #: Tells pytest that this is no test class.
    __test__: ClassVar[bool] = False

    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    #: The releases that the suite varies: ``llvm=19``; empty if it varies none.
    pins: str
    #: None for IR tests (the step is ``pipeline``, the case ``workload``) and for tests that are not selected.
    route: Route | None
    #: The step of an IR test.
    resolved_step: ResolvedStep | None
    #: ``unsupported`` if that is already known, else None.
    outcome: NotRun | None
    #: ``in by FILE:LINE:COLUMN``, why it is unsupported, or which rule left it out and why.
    reason: str
    #: The ``expect`` rule that applies to it.
    expectation: Rule | None
    #: True for a test that can run: neither unsupported nor left out.
    selected: bool
    #: The property that the test tests.
    tested_property: TestProperty | None = None
    #: The position where a suite declares a weak pass a failure; empty if none does.
    weak_fails: str = ""
    #: The position of the rule that selected it; empty where none did.
    selected_by: str = ""
    #: What its suite wants to know of its costs; None: nothing.
    cost: CostRule | None = None

    @property
    def identity(self) -> TestId:
        """Return the identifier by its parts."""
        return TestId(self.framework, self.pipeline, self.target, self.called, self.pins)

    @property
    def called(self) -> str:
        """Return the workload, with the property if the test has one: ``matmul~scaling``."""
        return f"{self.workload}{OF}{self.tested_property.name}" if self.tested_property else self.workload

    @property
    def known_route(self) -> Route:
        """Return the route of a test of a cell that can run."""
        assert self.route is not None
        return self.route

    @property
    def excluded(self) -> bool:
        """Return True if an exclusion leaves the test out."""
        return not self.selected and self.outcome is None

    @property
    def is_ir(self) -> bool:
        """Return True for the IR test of a step, which runs no program."""
        return self.target == IR_TARGET

    @property
    def executes(self) -> bool:
        """Return True if the test runs a program and has its outputs: IR tests, compile-only and judging targets have none."""
        return not self.without_outputs

    @property
    def without_outputs(self) -> str:
        """Return why there are no outputs to compare; empty for a test that executes."""
        if self.is_ir:
            return f"{self.id} is an IR test: FileCheck checks its text"
        if self.route and self.route.judges:
            return f"target {self.target} judges programs itself: there are no outputs"
        return (
            f"target {self.target} only compiles: there are no outputs"
            if self.route and self.route.compile_only
            else ""
        )


@dataclass(frozen=True, eq=False, repr=False)
class Expansion:
    """The tests of a suite, in its order. It is immutable."""

    #: None for the whole catalog; then ``default`` has the expectations of all tests that they match.
    name: str | None
    namespace: Namespace
    connector: Connector
    products: tuple[TestProduct, ...]
    excludes: tuple[TestPattern, ...] = ()
    expects: tuple[TestPattern, ...] = ()
    default: Expansion | None = None
    weak_fails: str = ""
    cost: CostRule | None = None

    def count(self, selector: Sequence[TestPattern] | None = None) -> int:
        """Count the tests that the suite selects, unsupported ones included."""
        return sum(len(cell_tests.column) for cell_tests in self._kept(selector))

    def ids(self, selector: Sequence[TestPattern] | None = None) -> Iterator[str]:
        """Return the identifiers of the tests that the suite selects, unsupported ones included."""
        for cell_tests in self._kept(selector):
            # A suite may have a million tests: what a cell shares is written once.
            begin = f"{cell_tests.framework}/{cell_tests.pipeline}/{cell_tests.target}/"
            end = with_pins("", cell_tests.pins)
            yield from [f"{begin}{called}{end}" for called in cell_tests.column]

    def tests(self, selector: Sequence[TestPattern] | None = None, *, excluded: bool = False) -> Iterator[Test]:
        """Return the tests that the suite selects; with ``excluded``, also those left out, each in its place."""
        expects = self.expects if self.default is None else self.default.expects
        for cell_tests in walk(self.products, selector, (*self.excludes, *expects)):
            yield from self._tests(cell_tests, excluded)

    def test(self, identifier: str) -> Test | None:
        """Return a test by its identifier, excluded or not; None if no rule includes it."""
        return next(self.tests(self.namespace.exact(self.spelled(identifier)), excluded=True), None)

    def spelled(self, glob: str) -> str:
        """Return a glob or an identifier with its pins as the suite spells them.

        ``@llvm=19.1.7`` names the tests of a suite with 19. Pins that name no releases stay as they are.
        """
        test, pins = split_pins(glob)
        return with_pins(test, self.spelling(pins)) if pins else glob

    def spelling(self, pins: str) -> str:
        """Return pins as the suite spells them."""
        meant = None if pins in self._varied else self._meaning(pins)
        return next((own for own, means in self._varied.items() if meant and means == meant), pins)

    @cached_property
    def _varied(self) -> dict[str, frozenset[tuple[str, str]] | None]:
        return {pins: self._meaning(pins) for product in self.products for pins in product.pins if pins}

    def _meaning(self, pins: str) -> frozenset[tuple[str, str]] | None:
        """Return the full releases that pins name, in any order; None if they name none."""
        try:
            return frozenset(read_pins(self.connector.catalog, pins.split(",")).items())
        except UsageError:
            return None

    def has(self, test: TestId) -> bool:
        """Return whether the suite selects a test: a rule includes it, and none excludes it."""
        return any(test in product for product in self.products) and not any(
            test in pattern for pattern in self.excludes
        )

    def _kept(self, selector: Sequence[TestPattern] | None) -> Iterator[CellTests]:
        """Return the cells without excluded tests. Some may be empty."""
        columns = ColumnParts()
        for cell_tests in walk(self.products, selector, self.excludes):
            if cell_tests.marks:
                column = columns.part(cell_tests.column, cell_tests.marks, inside=False)
                yield replace(cell_tests, column=column)
            else:
                yield cell_tests

    def _tests(self, cell_tests: CellTests, excluded: bool) -> Iterator[Test]:
        drops = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "exclude"]
        expects = [pattern for pattern in cell_tests.marks if pattern.rule.kind == "expect"]
        rule = cell_tests.product.rule
        reason = f"in by {rule.position}" if rule.position else "in the catalog"
        for called in cell_tests.column:
            test = cell_tests.test(called)
            drop = _first(drops, called)
            if drop is not None:
                if excluded:
                    yield _make(cell_tests, test, f"left out by {drop.position}: {drop.reason}")
                continue
            found, tested_property = self._found(cell_tests, test)
            if isinstance(found, Unsupported):
                yield _make(cell_tests, test, found.reason, outcome=Outcome.UNSUPPORTED)
                continue
            suite = self._suite_of(test)
            yield _make(
                cell_tests, test, reason, found=found, tested_property=tested_property,
                expectation=self._expectation(test, _first(expects, called)), weak_fails=suite.weak_fails if suite else "",
                cost=suite.cost if suite else None,
            )  # fmt: skip

    def _expectation(self, test: TestId, rule: Rule | None) -> Rule | None:
        """Return the rule of a matching test, also of one outside the default suite; None if that suite excludes the test."""
        excludes = self.default.excludes if rule and self.default else ()
        return None if any(test in pattern for pattern in excludes) else rule

    def _suite_of(self, test: TestId) -> Expansion | None:
        """Return the suite that says how a pass of a test counts; None if the test is outside the default suite."""
        if self.default is None:
            return self
        asks = self.default.weak_fails or self.default.cost
        return self.default if asks and self.default.has(test) else None

    def why_unsupported(self, cell_tests: CellTests, called: str) -> str:
        """Return why a test is unsupported, excluded or not; empty if it is supported."""
        found = self._found(cell_tests, cell_tests.test(called))[0]
        return found.reason if isinstance(found, Unsupported) else ""

    def _found(
        self, cell_tests: CellTests, test: TestId
    ) -> tuple[Route | ResolvedStep | Unsupported, TestProperty | None]:
        """Return the route or the step of a test of the cell, and its property."""
        if test.is_ir:
            return self.connector.step_alone(test.pipeline, test.pins), None
        stated = cell_tests.product.suite_property
        if stated is not None:
            test = test._replace(called=test.workload)
        route = self.connector.route(*test)
        if stated is None or isinstance(route, Unsupported):
            return route, None
        found = resolve_property(self.connector, stated, test, route)
        return (found, None) if isinstance(found, Unsupported) else (route, found)


def _make(
    cell_tests: CellTests,
    test: TestId,
    reason: str,
    *,
    found: Route | ResolvedStep | None = None,
    outcome: NotRun | None = None,
    tested_property: TestProperty | None = None,
    expectation: Rule | None = None,
    weak_fails: str = "",
    cost: CostRule | None = None,
) -> Test:
    """Make a test of a cell; ``found`` is None if the test is not selected."""
    route, resolved_step = (None, found) if isinstance(found, ResolvedStep) else (found, None)
    product = cell_tests.product
    return Test(
        str(test), test.framework, test.pipeline, test.target, test.workload, test.pins, route, resolved_step, outcome,
        reason, expectation, found is not None, tested_property or product.suite_property, weak_fails,
        "" if found is None else product.rule.position, cost,
    )  # fmt: skip


def _first(patterns: Sequence[TestPattern], workload: str) -> Rule | None:
    """Return the first rule, in the suite's order, whose pattern matches the workload. The caller has matched the cell."""
    return next((pattern.rule_of(workload) for pattern in patterns if workload in pattern.workloads), None)
