"""Sets of tests as products of names, so that a million tests are handled by cell and column, not one by one.

A test identifier has four segments. Every glob over identifiers is a union of *boxes*: one set of names for each
segment. Every part of a suite is an *area*: four ordered axes. Walking areas through boxes gives *rows*: a cell and the
column of its workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.errors import CatalogError
from mlir_matrix.names import SEGMENT_NAMES, SEGMENTS, did_you_mean, name_glob, printable, test_glob

#: Framework and target of the IR tests of steps: ``mlir/<step>/ir/<case>``.
IR_FRAMEWORK, IR_TARGET = "mlir", "ir"
Cell = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of a suite that speaks about tests, for messages and explanations."""

    #: ``block``, ``steps``, ``include``, ``exclude``, ``expect``; ``catalog`` (no suite's), ``select`` (a person's).
    kind: str
    #: ``file:line:column``
    position: str
    #: What the line says: a glob, or the axes of a block.
    text: str = ""
    reason: str = ""
    outcome: str = ""
    link: str | None = None


#: The rule of boxes that a person asks for.
SELECTION = Rule("select", "")


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """One set of names for each segment; ``rule`` is the one that it comes from."""

    frameworks: frozenset[str]
    pipelines: frozenset[str]
    targets: frozenset[str]
    workloads: frozenset[str]
    rule: Rule = SELECTION

    @classmethod
    def of(cls, names: Iterable[frozenset[str]], rule: Rule = SELECTION) -> Box:
        """A box of four sets in the order of the segments."""
        first, second, third, fourth = names
        return cls(first, second, third, fourth, rule)

    def __contains__(self, test: tuple[str, str, str, str]) -> bool:
        framework, pipeline, target, workload = test
        return (
            framework in self.frameworks
            and pipeline in self.pipelines
            and target in self.targets
            and workload in self.workloads
        )


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """Four ordered axes without repetition, and the rule that put their product in."""

    frameworks: tuple[str, ...]
    pipelines: tuple[str, ...]
    targets: tuple[str, ...]
    column: tuple[str, ...]
    rule: Rule

    @classmethod
    def of(cls, axes: Iterable[tuple[str, ...]], rule: Rule) -> Area:
        """An area of four axes in the order of the segments."""
        first, second, third, fourth = axes
        return cls(first, second, third, fourth, rule)

    def __contains__(self, test: tuple[str, str, str, str]) -> bool:
        framework, pipeline, target, workload = test
        return (
            framework in self.frameworks
            and pipeline in self.pipelines
            and target in self.targets
            and workload in self.column
        )

    @property
    def is_ir(self) -> bool:
        """Whether these are IR tests of a step."""
        return self.targets == (IR_TARGET,)

    def touches(self, box: Box) -> bool:
        """Whether any test is in both."""
        return not (
            box.frameworks.isdisjoint(self.frameworks)
            or box.pipelines.isdisjoint(self.pipelines)
            or box.targets.isdisjoint(self.targets)
            or box.workloads.isdisjoint(self.column)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A cell, a column of workloads in it, and the marks on the cell: boxes that may hold a part of the column."""

    framework: str
    pipeline: str
    target: str
    column: tuple[str, ...]
    area: Area
    marks: tuple[Box, ...] = ()


class Universe:
    """All names that a catalog has for each segment; turns globs into boxes and areas."""

    def __init__(self, catalog: Catalog) -> None:
        self._cases = {name: tuple(step.cases) for name, step in catalog.steps.items() if step.cases}
        self._axes = tuple(
            tuple(names) for names in (catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads)
        )
        cases = [case for column in self._cases.values() for case in column]
        extra: tuple[Iterable[str], ...] = ((), (), (), ())
        if cases:
            extra = ((IR_FRAMEWORK,), self._cases, (IR_TARGET,), cases)
        self._names = tuple(frozenset((*axis, *more)) for axis, more in zip(self._axes, extra, strict=True))
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

    def boxes(self, glob: str, rule: Rule = SELECTION) -> tuple[Box, ...]:
        """The boxes of a test glob; together they hold exactly the identifiers that it matches.

        Raises PatternError where the glob cannot be read or cannot have four segments.
        """
        return tuple(
            Box.of((self.matching(segment, part.pattern) for segment, part in enumerate(parts)), rule)
            for parts in test_glob(glob).segments
        )

    def exact(self, identifier: str) -> tuple[Box, ...]:
        """The box of one identifier, taken literally."""
        segments = identifier.split("/")
        return (Box.of(frozenset((name,)) for name in segments),) if len(segments) == SEGMENTS else ()

    def areas(self, box: Box, rule: Rule) -> Iterator[Area]:
        """The tests of the catalog that are in a box, in the catalog's order: those of cells, then the IR tests."""
        chosen = (box.frameworks, box.pipelines, box.targets, box.workloads)
        axes = [tuple(n for n in axis if n in names) for axis, names in zip(self._axes, chosen, strict=True)]
        if all(axes):
            yield Area.of(axes, rule)
        if IR_FRAMEWORK in box.frameworks and IR_TARGET in box.targets:
            for step, cases in self._cases.items():
                column = tuple(case for case in cases if case in box.workloads)
                if step in box.pipelines and column:
                    yield ir_area(step, column, rule)

    def everything(self, rule: Rule) -> tuple[Area, ...]:
        """All tests of the catalog."""
        return tuple(self.areas(Box.of(self._names), rule))

    def why_nothing(self, glob: str) -> str:
        """Why a glob matches no test: the segment that is unknown, or nothing better."""
        for segment, part in enumerate(test_glob(glob).segments[0]):
            if not self.matching(segment, part.pattern):
                return unknown(SEGMENT_NAMES[segment], part.pattern, self._names[segment])
        return "the catalog has no test with this combination"


def unknown(kind: str, pattern: str, names: Iterable[str]) -> str:
    """The sentence for a name or pattern that is nobody's, with the nearest name that there is."""
    if not name_glob(pattern).literal:
        return f"no {kind} matches '{printable(pattern)}'"
    return f"there is no {kind} '{printable(pattern)}'{did_you_mean(pattern, names)}"


def ir_area(step: str, column: tuple[str, ...], rule: Rule) -> Area:
    """The IR tests of one step."""
    return Area((IR_FRAMEWORK,), (step,), (IR_TARGET,), column, rule)


def walk(areas: Sequence[Area], select: Sequence[Box] | None = None, marks: Sequence[Box] = ()) -> Iterator[Row]:
    """All rows of the areas in order, each test once, narrowed to the boxes of ``select`` (None: all).

    Each row comes with those of ``marks`` that touch its cell. Time and memory follow the cells that are selected.
    """
    columns = Columns()
    seen = _Seen()
    for area in areas:
        for row in _rows(area, select, marks, columns):
            column = row.column if len(areas) == 1 else seen.new(row)
            if len(column) == len(row.column):
                yield row
            elif column:
                yield Row(row.framework, row.pipeline, row.target, column, area, row.marks)


def _rows(area: Area, select: Sequence[Box] | None, marks: Sequence[Box], columns: Columns) -> Iterator[Row]:
    """The rows of one area. Boxes are narrowed axis by axis: the innermost loop meets only those that can match."""
    for framework in area.frameworks:
        select_f = None if select is None else [box for box in select if framework in box.frameworks]
        marks_f = [box for box in marks if framework in box.frameworks]
        for pipeline in () if select_f == [] else area.pipelines:
            select_p = None if select_f is None else [box for box in select_f if pipeline in box.pipelines]
            marks_p = [box for box in marks_f if pipeline in box.pipelines]
            for target in () if select_p == [] else area.targets:
                column = area.column
                if select_p is not None:
                    column = columns.keep(column, [box for box in select_p if target in box.targets])
                if column:
                    touching = tuple([box for box in marks_p if target in box.targets]) if marks_p else ()
                    yield Row(framework, pipeline, target, column, area, touching)


class Columns:
    """Cuts columns, and gives the same tuple for the same question: there are few different cuts, and many cells."""

    def __init__(self) -> None:
        self._cut: dict[tuple[tuple[str, ...], frozenset[frozenset[str]], bool], tuple[str, ...]] = {}

    def keep(self, column: tuple[str, ...], boxes: Sequence[Box]) -> tuple[str, ...]:
        """The part of a column that is in any of the boxes; their cell is known to match."""
        return self._part(column, boxes, inside=True)

    def drop(self, column: tuple[str, ...], boxes: Sequence[Box]) -> tuple[str, ...]:
        """The part of a column that is in none of the boxes."""
        return self._part(column, boxes, inside=False)

    def _part(self, column: tuple[str, ...], boxes: Sequence[Box], *, inside: bool) -> tuple[str, ...]:
        sets = frozenset([box.workloads for box in boxes])
        key = (column, sets, inside)
        found = self._cut.get(key)
        if found is None:
            names = frozenset[str]().union(*sets)
            found = self._cut[key] = tuple([name for name in column if (name in names) is inside])
        return found


class _Seen:
    """What earlier areas have given, by cell: their column where there was one, a set where there were more."""

    def __init__(self) -> None:
        self._columns: dict[Cell, tuple[str, ...] | set[str]] = {}

    def new(self, row: Row) -> tuple[str, ...]:
        """The part of the row's column that no earlier row of its cell had."""
        cell = (row.framework, row.pipeline, row.target)
        before = self._columns.get(cell)
        if before is None:
            self._columns[cell] = row.column
            return row.column
        if before == row.column:
            return ()
        names = before if isinstance(before, set) else set(before)
        fresh = tuple([name for name in row.column if name not in names])
        if fresh:
            names.update(fresh)
            self._columns[cell] = names
        return fresh
