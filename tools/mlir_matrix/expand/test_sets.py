"""Describe sets of tests as products of names, so that a million tests are handled by cell and column.

A test identifier has four segments. Every glob over identifiers is a union of *test patterns*, each with one set of names per
segment. Every part of a suite is a *test product*: four ordered axes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.names import (
    IR_FRAMEWORK,
    IR_TARGET,
    MEMBER,
    OF,
    SEGMENT_NAMES,
    TestId,
    did_you_mean,
    name_glob,
    printable,
    split_property,
    test_glob,
)
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.suites import PropertyKind
from mlir_matrix.expand.routes import Route

#: The pins of tests whose suite varies no pins.
NO_PINS = ("",)
#: The most tests of a suite, and those that globs select.
MOST_TESTS = 2_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of a suite that selects tests, for messages and explanations."""

    #: ``block``, ``steps``, ``include``, ``property``, ``exclude``, ``expect``; ``catalog`` or ``select`` outside of suites.
    kind: str
    #: ``file:line:column``
    position: str
    #: The glob of the line, or the axes of a block.
    text: str = ""
    reason: str = ""
    #: The outcome that an expectation names; else a pass.
    outcome: Outcome = Outcome.PASS
    link: str | None = None


#: The rule of patterns from the command line.
SELECTION = Rule("select", "")


@dataclass(frozen=True, slots=True, eq=False)
class TestPattern:
    """One set of names for each segment, and a predicate for pins (None: any). It comes from ``rule``."""

    #: Tell pytest that this is no test class.
    __test__: ClassVar[bool] = False

    frameworks: frozenset[str]
    pipelines: frozenset[str]
    targets: frozenset[str]
    workloads: frozenset[str]
    rule: Rule = SELECTION
    pins: Callable[[str], bool] | None = None
    #: Rules of single workloads, instead of ``rule``: thousands of tests, each with a rule, are one pattern per cell.
    each: Mapping[str, Rule] = field(default_factory=dict)

    @property
    def rules(self) -> Collection[Rule]:
        """Return all rules that the pattern comes from."""
        return self.each.values() or (self.rule,)

    def rule_of(self, workload: str) -> Rule:
        """Return the rule for one workload of the pattern."""
        return self.each.get(workload, self.rule)

    @property
    def axes(self) -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]:
        """Return the sets in the order of the segments."""
        return self.frameworks, self.pipelines, self.targets, self.workloads

    def takes(self, pins: str) -> bool:
        """Return whether tests with these pins may match."""
        return self.pins is None or self.pins(pins)

    def __contains__(self, test: TestId) -> bool:
        # Written without a loop, because it runs for each test.
        framework, pipeline, target, workload, pins = test
        return (
            framework in self.frameworks
            and pipeline in self.pipelines
            and target in self.targets
            and workload in self.workloads
            and self.takes(pins)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TestProperty:
    """A property of a suite or of a test. For a test: also the cell and route with which it is compared, if they differ."""

    #: Tell pytest that this is no test class.
    __test__: ClassVar[bool] = False

    name: str
    property_kind: PropertyKind
    #: ``file:line:column`` of the property.
    position: str
    cell: tuple[str, str, str] | None = None
    route: Route | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TestProduct:
    """Four ordered axes without repetition and the pins that vary, with the rule that selects their product.

    For tests with a property, the names in the column hold it: ``matmul~scaling``.
    """

    #: Tell pytest that this is no test class.
    __test__: ClassVar[bool] = False

    frameworks: tuple[str, ...]
    pipelines: tuple[str, ...]
    targets: tuple[str, ...]
    column: tuple[str, ...]
    rule: Rule
    pins: tuple[str, ...] = NO_PINS
    suite_property: TestProperty | None = None

    @property
    def axes(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the names in the order of the segments."""
        return self.frameworks, self.pipelines, self.targets, self.column

    def having(self, suite_property: TestProperty, pattern: TestPattern) -> TestProduct | None:
        """Return the tests that a pattern matches, too, each with a property; None if there are none."""
        pins = tuple(filter(pattern.takes, self.pins))
        axes = [tuple(filter(names.__contains__, axis)) for axis, names in zip(self.axes, pattern.axes, strict=True)]
        if not (all(axes) and pins):
            return None
        column = tuple([f"{name}{OF}{suite_property.name}" for name in axes[3]])
        return TestProduct(axes[0], axes[1], axes[2], column, pattern.rule, pins, suite_property)

    def __contains__(self, test: TestId) -> bool:
        framework, pipeline, target, workload, pins = test
        return (
            framework in self.frameworks
            and pipeline in self.pipelines
            and target in self.targets
            and workload in self.column
            and pins in self.pins
        )

    @property
    def is_ir(self) -> bool:
        """Return True for IR tests of a step."""
        return self.targets == (IR_TARGET,)

    def touches(self, pattern: TestPattern) -> bool:
        """Return whether any test is in both sets."""
        overlaps = (not names.isdisjoint(axis) for names, axis in zip(pattern.axes, self.axes, strict=True))
        return all(overlaps) and any(map(pattern.takes, self.pins))


class Namespace:
    """All names of a catalog by segment. Turns globs into test patterns and products."""

    def __init__(self, catalog: Catalog, properties: Iterable[str] = ()) -> None:
        """Collect the names of a catalog. ``properties``: the names of properties that tests may have."""
        self._cases = {name: tuple(step.cases) for name, step in catalog.steps.items() if step.cases}
        self._axes = tuple(map(tuple, catalog.axes.values()))
        cases = [case for column in self._cases.values() for case in column]
        ir_names = ((IR_FRAMEWORK,), self._cases, (IR_TARGET,), cases) if cases else ((), (), (), ())
        self._names = tuple(frozenset((*axis, *more)) for axis, more in zip(self._axes, ir_names, strict=True))
        self._properties = frozenset(properties)
        self._without_data = catalog.without_data
        self._matching: dict[tuple[int, str], frozenset[str]] = {}

    def outside(self, glob: str, names: Iterable[str]) -> frozenset[str]:
        """Return the workloads that a glob includes. It includes members of corpora only if it names one, by a ``:``."""
        return frozenset(names) if MEMBER in glob else frozenset(name for name in names if MEMBER not in name)

    def axis(self, segment: int) -> tuple[str, ...]:
        """Return the names of a segment in the catalog's order, without those of IR tests."""
        return self._axes[segment]

    def ir_products(self, pattern: str, rule: Rule, pins: tuple[str, ...] = NO_PINS) -> list[TestProduct]:
        """Return the IR tests of the steps that a pattern for names matches, with each of some pins."""
        return [ir_product(step, self._cases[step], rule, pins) for step in name_glob(pattern).select(self._cases)]

    def matching(self, segment: int, pattern: str) -> frozenset[str]:
        """Return the names of a segment that a pattern matches; the same object for equal arguments."""
        key = (segment, pattern)
        found = self._matching.get(key)
        if found is None:
            names = self._names[segment]
            found = self._matching[key] = names if pattern == "*" else frozenset(name_glob(pattern).select(names))
        return found

    def patterns(self, glob: str, rule: Rule = SELECTION) -> tuple[TestPattern, ...]:
        """Return the patterns of a test glob. Together they match the same identifiers.

        Raise PatternError if the glob is not valid or cannot have four segments.
        """
        found = test_glob(glob)
        pins = found.pins.matches if found.pins else None
        patterns = []
        for parts in found.segments:
            first, second, third, fourth = (self.matching(segment, part.pattern) for segment, part in enumerate(parts))
            if found.property:
                fourth = self.having(fourth, found.property.pattern)
            patterns.append(TestPattern(first, second, third, fourth, rule, pins))
        return tuple(patterns)

    def included(self, glob: str, rule: Rule = SELECTION) -> tuple[TestPattern, ...]:
        """Return the patterns of a glob that includes tests. It includes members of corpora only if it has a ``:``."""
        found = self.patterns(glob, rule)
        return tuple(replace(pattern, workloads=self.outside(glob, pattern.workloads)) for pattern in found)

    def having(self, workloads: Iterable[str], pattern: str = "*") -> frozenset[str]:
        """Return workloads with each of the properties that a pattern matches, as tests name them."""
        properties = name_glob(pattern).select(self._properties)
        return frozenset(f"{workload}{OF}{name}" for workload in workloads for name in properties)

    def exact(self, identifier: str) -> tuple[TestPattern, ...]:
        """Return the pattern that matches only this identifier."""
        try:
            *names, pins = TestId.parse(identifier)
        except ValueError:
            return ()
        first, second, third, fourth = (frozenset((name,)) for name in names)
        return (TestPattern(first, second, third, fourth, pins=pins.__eq__),)

    def products(self, pattern: TestPattern, rule: Rule, pins: tuple[str, ...] = NO_PINS) -> Iterator[TestProduct]:
        """Return the tests of the catalog that a pattern matches, in its order: those of cells, then the IR tests.

        ``pins`` are those that tests may have.
        """
        pins = tuple(filter(pattern.takes, pins))
        axes = [tuple(filter(names.__contains__, axis)) for axis, names in zip(self._axes, pattern.axes, strict=True)]
        if all(axes) and pins:
            yield TestProduct(axes[0], axes[1], axes[2], axes[3], rule, pins)
        if pins and IR_FRAMEWORK in pattern.frameworks and IR_TARGET in pattern.targets:
            for step, cases in self._cases.items():
                column = tuple(case for case in cases if case in pattern.workloads)
                if step in pattern.pipelines and column:
                    yield ir_product(step, column, rule, pins)

    def everything(self, rule: Rule, pins: tuple[str, ...] = NO_PINS) -> tuple[TestProduct, ...]:
        """Return all tests of the catalog, with each of some pins."""
        first, second, third, fourth = self._names
        return tuple(self.products(TestPattern(first, second, third, fourth, rule), rule, pins))

    def knows(self, patterns: Iterable[TestPattern]) -> bool:
        """Return whether the catalog has a test in any of the patterns, with any pins and known properties."""
        for pattern in patterns:
            split = map(split_property, pattern.workloads)
            workloads = frozenset(workload for workload, name in split if not name or name in self._properties)
            if any(True for _ in self.products(replace(pattern, pins=None, workloads=workloads), pattern.rule)):
                return True
        return False

    def why_nothing(self, glob: str) -> str:
        """Return why no test of the catalog matches a glob: a corpus without data, the unknown segment, else the combination."""
        for corpus, why in self._without_data.items():
            if f"/{corpus}{MEMBER}" in glob:
                return why
        found = test_glob(glob)
        for segment, part in enumerate(found.segments[0]):
            if not self.matching(segment, part.pattern):
                return _unknown(SEGMENT_NAMES[segment], part.pattern, self._names[segment])
        if found.property and not found.property.select(self._properties):
            return _unknown("property", found.property.pattern, self._properties)
        return "the catalog has no test with this combination"


def _unknown(kind: str, pattern: str, names: Iterable[str]) -> str:
    """Return the sentence for an unknown name, with the nearest one, or for a pattern without a match."""
    if not name_glob(pattern).literal:
        return f"no {kind} matches '{printable(pattern)}'"
    return f"there is no {kind} '{printable(pattern)}'{did_you_mean(pattern, names)}"


def ir_product(step: str, column: tuple[str, ...], rule: Rule, pins: tuple[str, ...]) -> TestProduct:
    """Return the IR tests of one step, with each of some pins."""
    return TestProduct((IR_FRAMEWORK,), (step,), (IR_TARGET,), column, rule, pins)


@dataclass(frozen=True, slots=True, eq=False)
class CellTests:
    """A cell, a column of workloads in it, and the marks on the cell: patterns that may match a part of the column."""

    framework: str
    pipeline: str
    target: str
    column: tuple[str, ...]
    product: TestProduct
    marks: tuple[TestPattern, ...] = ()
    pins: str = ""

    def test(self, called: str) -> TestId:
        """Return the identifier of a test in the cell."""
        return TestId(self.framework, self.pipeline, self.target, called, self.pins)


def walk(
    products: Sequence[TestProduct], select: Sequence[TestPattern] | None = None, marks: Sequence[TestPattern] = ()
) -> Iterator[CellTests]:
    """Return all cells of the products in order, each test once. ``select``: only tests of these patterns (None: all).

    Each cell comes with the ``marks`` that touch it. Time and memory are proportional to the number of selected cells.
    """
    columns = ColumnParts()
    seen: dict[TestId, tuple[str, ...] | set[str]] = {}
    for product in products:
        for cell_tests in _cells(product, select, marks, columns):
            column = cell_tests.column if len(products) == 1 else _unseen(cell_tests, seen)
            if len(column) == len(cell_tests.column):
                yield cell_tests
            elif column:
                yield replace(cell_tests, column=column)


def _cells(
    product: TestProduct, select: Sequence[TestPattern] | None, marks: Sequence[TestPattern], columns: ColumnParts
) -> Iterator[CellTests]:
    """Return the cells of one product. Each loop over an axis drops patterns, so the innermost loop sees only possible ones."""
    for framework in product.frameworks:
        select_f = None if select is None else [pattern for pattern in select if framework in pattern.frameworks]
        marks_f = [pattern for pattern in marks if framework in pattern.frameworks]
        for pipeline in () if select_f == [] else product.pipelines:
            select_p = None if select_f is None else [pattern for pattern in select_f if pipeline in pattern.pipelines]
            marks_p = [pattern for pattern in marks_f if pipeline in pattern.pipelines]
            for target in () if select_p == [] else product.targets:
                select_t = None if select_p is None else [pattern for pattern in select_p if target in pattern.targets]
                marks_t = [pattern for pattern in marks_p if target in pattern.targets]
                for pins in () if select_t == [] else product.pins:
                    column = product.column
                    if select_t is not None:
                        kept = [pattern for pattern in select_t if pattern.takes(pins)]
                        column = columns.part(column, kept, inside=True)
                    if column:
                        touching = tuple([pattern for pattern in marks_t if pattern.takes(pins)]) if marks_t else ()
                        yield CellTests(framework, pipeline, target, column, product, touching, pins)


class ColumnParts:
    """Cuts columns. Returns the same tuple for equal arguments, because many cells share few different cuts."""

    def __init__(self) -> None:
        self._parts: dict[tuple[tuple[str, ...], frozenset[frozenset[str]], bool], tuple[str, ...]] = {}

    def part(self, column: tuple[str, ...], patterns: Sequence[TestPattern], *, inside: bool) -> tuple[str, ...]:
        """Return the part of a column that is in any of the patterns, or in none. The caller has matched the cell."""
        sets = frozenset([pattern.workloads for pattern in patterns])
        key = (column, sets, inside)
        found = self._parts.get(key)
        if found is None:
            names = frozenset[str]().union(*sets)
            found = self._parts[key] = tuple([name for name in column if (name in names) is inside])
        return found


def _unseen(cell_tests: CellTests, seen: dict[TestId, tuple[str, ...] | set[str]]) -> tuple[str, ...]:
    """Return the part of a column that no earlier product has in this cell. Add it to ``seen``.

    ``seen`` has the column of a cell after one product, a set after more.
    """
    key = cell_tests.test("")
    before = seen.get(key)
    if before is None:
        seen[key] = cell_tests.column
        return cell_tests.column
    if before == cell_tests.column:
        return ()
    names = before if isinstance(before, set) else set(before)
    fresh = tuple([name for name in cell_tests.column if name not in names])
    if fresh:
        names.update(fresh)
        seen[key] = names
    return fresh
