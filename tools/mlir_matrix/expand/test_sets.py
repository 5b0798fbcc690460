"""Describe sets of tests as products of names: a million tests are handled by cell and column, not one by one.

A test identifier has four segments. Every glob over identifiers is a union of *test patterns*: one set of names for
each segment. Every part of a suite is a *test product*: four ordered axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.suites import PropertyKind
from mlir_matrix.errors import CatalogError
from mlir_matrix.names import OF, SEGMENT_NAMES, SEGMENTS, did_you_mean, name_glob, printable, test_glob

#: Framework and target of the IR tests of steps: ``mlir/<step>/ir/<case>``.
IR_FRAMEWORK, IR_TARGET = "mlir", "ir"
#: Framework, pipeline, target, workload (``matmul~scaling`` for a property) and pins (``llvm=19``; empty where none vary).
TestKey = tuple[str, str, str, str, str]
#: Framework, pipeline, target and pins.
Cell = tuple[str, str, str, str]
#: Of tests whose suite varies no pins.
NO_PINS = ("",)


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of a suite that speaks about tests, for messages and explanations."""

    #: ``block``, ``steps``, ``include``, ``property``, ``exclude``, ``expect``; ``catalog`` (no suite's), ``select`` (a person's).
    kind: str
    #: ``file:line:column``
    position: str
    #: What the line says: a glob, or the axes of a block.
    text: str = ""
    reason: str = ""
    outcome: str = ""
    link: str | None = None


#: The rule of patterns that a person asks for.
SELECTION = Rule("select", "")


@dataclass(frozen=True, slots=True, eq=False)
class TestPattern:
    """One set of names for each segment and a test of pins (None: any); ``rule`` is the one that it comes from."""

    #: For pytest, which would take the name for one of its own.
    __test__: ClassVar[bool] = False

    frameworks: frozenset[str]
    pipelines: frozenset[str]
    targets: frozenset[str]
    workloads: frozenset[str]
    rule: Rule = SELECTION
    pins: Callable[[str], bool] | None = None

    @classmethod
    def of(
        cls, names: Iterable[frozenset[str]], rule: Rule = SELECTION, pins: Callable[[str], bool] | None = None
    ) -> TestPattern:
        """A pattern of four sets in the order of the segments."""
        first, second, third, fourth = names
        return cls(first, second, third, fourth, rule, pins)

    def takes(self, pins: str) -> bool:
        """Whether tests with these pins may be in it."""
        return self.pins is None or self.pins(pins)

    def __contains__(self, test: TestKey) -> bool:
        framework, pipeline, target, workload, pins = test
        return (
            framework in self.frameworks
            and pipeline in self.pipelines
            and target in self.targets
            and workload in self.workloads
            and self.takes(pins)
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SuiteProperty:
    """A property as a suite states it: its name, what must hold, and where that stands."""

    name: str
    property_kind: PropertyKind
    position: str


@dataclass(frozen=True, slots=True, eq=False)
class TestProduct:
    """Four ordered axes without repetition and the pins that vary, and the rule that put their product in.

    Where it is of tests with a property, the names in the column hold it: ``matmul~scaling``.
    """

    #: For pytest, which would take the name for one of its own.
    __test__: ClassVar[bool] = False

    frameworks: tuple[str, ...]
    pipelines: tuple[str, ...]
    targets: tuple[str, ...]
    column: tuple[str, ...]
    rule: Rule
    pins: tuple[str, ...] = NO_PINS
    suite_property: SuiteProperty | None = None

    @classmethod
    def of(cls, axes: Iterable[tuple[str, ...]], rule: Rule, pins: tuple[str, ...] = NO_PINS) -> TestProduct:
        """A product of four axes in the order of the segments."""
        first, second, third, fourth = axes
        return cls(first, second, third, fourth, rule, pins)

    def having(self, suite_property: SuiteProperty, pattern: TestPattern) -> TestProduct | None:
        """The tests with a property of those that a pattern holds too; None where there are none."""
        frameworks, pipelines, targets, workloads = (
            tuple([name for name in axis if name in names])
            for axis, names in (
                (self.frameworks, pattern.frameworks),
                (self.pipelines, pattern.pipelines),
                (self.targets, pattern.targets),
                (self.column, pattern.workloads),
            )
        )
        pins = tuple(filter(pattern.takes, self.pins))
        if not (frameworks and pipelines and targets and workloads and pins):
            return None
        column = tuple([having(name, suite_property.name) for name in workloads])
        return TestProduct(frameworks, pipelines, targets, column, pattern.rule, pins, suite_property)

    def __contains__(self, test: TestKey) -> bool:
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
        """Whether these are IR tests of a step."""
        return self.targets == (IR_TARGET,)

    def touches(self, pattern: TestPattern) -> bool:
        """Whether any test is in both."""
        return not (
            pattern.frameworks.isdisjoint(self.frameworks)
            or pattern.pipelines.isdisjoint(self.pipelines)
            or pattern.targets.isdisjoint(self.targets)
            or pattern.workloads.isdisjoint(self.column)
            or not any(map(pattern.takes, self.pins))
        )


class Namespace:
    """All names that a catalog has for each segment; turns globs into test patterns and products."""

    def __init__(self, catalog: Catalog, properties: Iterable[str] = ()) -> None:
        """``properties`` are the names of those that tests may have."""
        self._cases = {name: tuple(step.cases) for name, step in catalog.steps.items() if step.cases}
        self._axes = tuple(
            tuple(names) for names in (catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads)
        )
        cases = [case for column in self._cases.values() for case in column]
        extra: tuple[Iterable[str], ...] = ((), (), (), ())
        if cases:
            extra = ((IR_FRAMEWORK,), self._cases, (IR_TARGET,), cases)
        self._names = tuple(frozenset((*axis, *more)) for axis, more in zip(self._axes, extra, strict=True))
        self._properties = frozenset(properties)
        self._matching: dict[tuple[int, str], frozenset[str]] = {}
        if IR_TARGET in catalog.targets:
            position = catalog.targets[IR_TARGET].source.position()
            raise CatalogError(f"{position}: no target can be called {IR_TARGET}: the IR tests of steps have that name")

    def names(self, segment: int) -> frozenset[str]:
        """Every name that a segment (0 to 3) of an identifier may have."""
        return self._names[segment]

    def axis(self, segment: int) -> tuple[str, ...]:
        """The names of a segment in the catalog's order, without those of IR tests."""
        return self._axes[segment]

    def cases(self, step: str) -> tuple[str, ...]:
        """The IR test cases of a step."""
        return self._cases.get(step, ())

    def steps_matching(self, pattern: str) -> tuple[str, ...]:
        """The steps with IR tests that a pattern matches, in the catalog's order."""
        return tuple(name_glob(pattern).select(self._cases))

    def matching(self, segment: int, pattern: str) -> frozenset[str]:
        """The names of a segment that a pattern matches; the same object for the same question."""
        key = (segment, pattern)
        found = self._matching.get(key)
        if found is None:
            names = self._names[segment]
            found = self._matching[key] = names if pattern == "*" else frozenset(name_glob(pattern).select(names))
        return found

    def patterns(self, glob: str, rule: Rule = SELECTION) -> tuple[TestPattern, ...]:
        """The patterns of a test glob; together they hold exactly the identifiers that it matches.

        Raises PatternError where the glob cannot be read or cannot have four segments.
        """
        found = test_glob(glob)
        pins = found.pins.matches if found.pins else None
        patterns = tuple(
            TestPattern.of((self.matching(segment, part.pattern) for segment, part in enumerate(parts)), rule, pins)
            for parts in found.segments
        )
        if found.property is None:
            return patterns
        return tuple(
            replace(pattern, workloads=self.having(pattern.workloads, found.property.pattern)) for pattern in patterns
        )

    def having(self, workloads: Iterable[str], pattern: str = "*") -> frozenset[str]:
        """Workloads with each of the properties that a pattern matches, as tests name them."""
        properties = name_glob(pattern).select(self._properties)
        return frozenset(having(workload, name) for workload in workloads for name in properties)

    def exact(self, identifier: str) -> tuple[TestPattern, ...]:
        """The pattern of one identifier, taken literally."""
        test, _, pins = identifier.partition("@")
        segments = test.split("/")
        names = (frozenset((name,)) for name in segments)
        return (TestPattern.of(names, SELECTION, pins.__eq__),) if len(segments) == SEGMENTS else ()

    def products(self, pattern: TestPattern, rule: Rule, pins: tuple[str, ...] = NO_PINS) -> Iterator[TestProduct]:
        """The tests of the catalog that a pattern holds, in the catalog's order: those of cells, then the IR tests.

        ``pins`` are those that tests of cells may have.
        """
        pins = tuple(filter(pattern.takes, pins))
        chosen = (pattern.frameworks, pattern.pipelines, pattern.targets, pattern.workloads)
        axes = [tuple(n for n in axis if n in names) for axis, names in zip(self._axes, chosen, strict=True)]
        if all(axes) and pins:
            yield TestProduct.of(axes, rule, pins)
        if pattern.takes("") and IR_FRAMEWORK in pattern.frameworks and IR_TARGET in pattern.targets:
            for step, cases in self._cases.items():
                column = tuple(case for case in cases if case in pattern.workloads)
                if step in pattern.pipelines and column:
                    yield ir_product(step, column, rule)

    def everything(self, rule: Rule, pins: tuple[str, ...] = NO_PINS) -> tuple[TestProduct, ...]:
        """All tests of the catalog, with each of some pins."""
        return tuple(self.products(TestPattern.of(self._names), rule, pins))

    def knows(self, patterns: Iterable[TestPattern]) -> bool:
        """Whether the catalog has a test in any of the patterns, whatever pins they ask for."""
        return any(True for pattern in patterns for _ in self.products(replace(pattern, pins=None), pattern.rule))

    def why_nothing(self, glob: str) -> str:
        """Why a glob matches no test: the segment that is unknown, or nothing better."""
        found = test_glob(glob)
        for segment, part in enumerate(found.segments[0]):
            if not self.matching(segment, part.pattern):
                return unknown(SEGMENT_NAMES[segment], part.pattern, self._names[segment])
        if found.property is None:
            return "the catalog has no test with this combination"
        if not found.property.select(self._properties):
            return unknown("property", found.property.pattern, self._properties)
        return "no suite states this property of such a test"


def having(workload: str, name: str) -> str:
    """A workload with a property, as the tests of a suite name it."""
    return f"{workload}{OF}{name}"


def unknown(kind: str, pattern: str, names: Iterable[str]) -> str:
    """The sentence for a name or pattern that is nobody's, with the nearest name that there is."""
    if not name_glob(pattern).literal:
        return f"no {kind} matches '{printable(pattern)}'"
    return f"there is no {kind} '{printable(pattern)}'{did_you_mean(pattern, names)}"


def ir_product(step: str, column: tuple[str, ...], rule: Rule) -> TestProduct:
    """The IR tests of one step."""
    return TestProduct((IR_FRAMEWORK,), (step,), (IR_TARGET,), column, rule)


@dataclass(frozen=True, slots=True, eq=False)
class CellTests:
    """A cell, a column of workloads in it, and the marks on the cell: patterns that may hold a part of the column."""

    framework: str
    pipeline: str
    target: str
    column: tuple[str, ...]
    product: TestProduct
    marks: tuple[TestPattern, ...] = ()
    pins: str = ""

    def name(self, workload: str) -> str:
        """The identifier of the row's test of a workload."""
        return f"{self.framework}/{self.pipeline}/{self.target}/{workload}{self.suffix}"

    @property
    def suffix(self) -> str:
        """What stands after the workload in the identifiers of its tests."""
        return f"@{self.pins}" if self.pins else ""


def walk(
    products: Sequence[TestProduct], select: Sequence[TestPattern] | None = None, marks: Sequence[TestPattern] = ()
) -> Iterator[CellTests]:
    """All rows of the products in order, each test once, narrowed to the patterns of ``select`` (None: all).

    Each row comes with those of ``marks`` that touch its cell. Time and memory follow the cells that are selected.
    """
    columns = Columns()
    seen = _Seen()
    for product in products:
        for cell_tests in _cells(product, select, marks, columns):
            column = cell_tests.column if len(products) == 1 else seen.new(cell_tests)
            if len(column) == len(cell_tests.column):
                yield cell_tests
            elif column:
                yield CellTests(
                    cell_tests.framework,
                    cell_tests.pipeline,
                    cell_tests.target,
                    column,
                    product,
                    cell_tests.marks,
                    cell_tests.pins,
                )


def _cells(
    product: TestProduct, select: Sequence[TestPattern] | None, marks: Sequence[TestPattern], columns: Columns
) -> Iterator[CellTests]:
    """The rows of one product. Patterns are narrowed axis by axis: the innermost loop meets only those that can match."""
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
                        column = columns.keep(column, [pattern for pattern in select_t if pattern.takes(pins)])
                    if column:
                        touching = tuple([pattern for pattern in marks_t if pattern.takes(pins)]) if marks_t else ()
                        yield CellTests(framework, pipeline, target, column, product, touching, pins)


class Columns:
    """Cuts columns, and gives the same tuple for the same question: there are few different cuts, and many cells."""

    def __init__(self) -> None:
        self._cut: dict[tuple[tuple[str, ...], frozenset[frozenset[str]], bool], tuple[str, ...]] = {}

    def keep(self, column: tuple[str, ...], patterns: Sequence[TestPattern]) -> tuple[str, ...]:
        """The part of a column that is in any of the patterns; their cell is known to match."""
        return self._part(column, patterns, inside=True)

    def drop(self, column: tuple[str, ...], patterns: Sequence[TestPattern]) -> tuple[str, ...]:
        """The part of a column that is in none of the patterns."""
        return self._part(column, patterns, inside=False)

    def _part(self, column: tuple[str, ...], patterns: Sequence[TestPattern], *, inside: bool) -> tuple[str, ...]:
        sets = frozenset([pattern.workloads for pattern in patterns])
        key = (column, sets, inside)
        found = self._cut.get(key)
        if found is None:
            names = frozenset[str]().union(*sets)
            found = self._cut[key] = tuple([name for name in column if (name in names) is inside])
        return found


class _Seen:
    """What earlier products have given, by cell: their column where there was one, a set where there were more."""

    def __init__(self) -> None:
        self._columns: dict[Cell, tuple[str, ...] | set[str]] = {}

    def new(self, cell_tests: CellTests) -> tuple[str, ...]:
        """The part of the row's column that no earlier row of its cell had."""
        cell = (cell_tests.framework, cell_tests.pipeline, cell_tests.target, cell_tests.pins)
        before = self._columns.get(cell)
        if before is None:
            self._columns[cell] = cell_tests.column
            return cell_tests.column
        if before == cell_tests.column:
            return ()
        names = before if isinstance(before, set) else set(before)
        fresh = tuple([name for name in cell_tests.column if name not in names])
        if fresh:
            names.update(fresh)
            self._columns[cell] = names
        return fresh
