"""Walk areas through boxes: what comes out are rows, a cell and the column of its workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir_matrix.expand.test_sets import Area, Box

#: Framework, pipeline, target and pins.
Cell = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A cell, a column of workloads in it, and the marks on the cell: boxes that may hold a part of the column."""

    framework: str
    pipeline: str
    target: str
    column: tuple[str, ...]
    area: Area
    marks: tuple[Box, ...] = ()
    pins: str = ""

    def name(self, workload: str) -> str:
        """The identifier of the row's test of a workload."""
        return f"{self.framework}/{self.pipeline}/{self.target}/{workload}{self.suffix}"

    @property
    def suffix(self) -> str:
        """What stands after the workload in the identifiers of its tests."""
        return f"@{self.pins}" if self.pins else ""


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
                yield Row(row.framework, row.pipeline, row.target, column, area, row.marks, row.pins)


def _rows(area: Area, select: Sequence[Box] | None, marks: Sequence[Box], columns: Columns) -> Iterator[Row]:
    """The rows of one area. Boxes are narrowed axis by axis: the innermost loop meets only those that can match."""
    for framework in area.frameworks:
        select_f = None if select is None else [box for box in select if framework in box.frameworks]
        marks_f = [box for box in marks if framework in box.frameworks]
        for pipeline in () if select_f == [] else area.pipelines:
            select_p = None if select_f is None else [box for box in select_f if pipeline in box.pipelines]
            marks_p = [box for box in marks_f if pipeline in box.pipelines]
            for target in () if select_p == [] else area.targets:
                select_t = None if select_p is None else [box for box in select_p if target in box.targets]
                marks_t = [box for box in marks_p if target in box.targets]
                for pins in () if select_t == [] else area.pins:
                    column = area.column
                    if select_t is not None:
                        column = columns.keep(column, [box for box in select_t if box.takes(pins)])
                    if column:
                        touching = tuple([box for box in marks_t if box.takes(pins)]) if marks_t else ()
                        yield Row(framework, pipeline, target, column, area, touching, pins)


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
        cell = (row.framework, row.pipeline, row.target, row.pins)
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
