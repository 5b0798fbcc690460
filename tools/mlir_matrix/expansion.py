"""What a suite or the whole catalog expands to: counted and listed by cell and column, built one by one where asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from mlir_matrix.areas import IR_TARGET, Area, Box, Columns, Row, Rule, Universe, walk
from mlir_matrix.connect import Connector, Road, Unsupported


@dataclass(frozen=True, slots=True)
class Test:
    """A workload in a cell, or an IR test of a step, with the reason why it is in or out."""

    #: For pytest, which would take the name for one of its own.
    __test__: ClassVar[bool] = False

    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    #: None for IR tests (the step is ``pipeline``, the case ``workload``) and for tests that are not selected.
    road: Road | None
    #: ``unsupported`` where that is already known, else None.
    outcome: str | None
    #: ``in by FILE:LINE:COLUMN``, why it is unsupported, or who left it out and why.
    reason: str
    #: The ``expect`` rule that holds for it.
    expectation: Rule | None
    #: True for what can run: neither unsupported nor left out.
    selected: bool

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
        universe: Universe,
        connector: Connector,
        areas: Sequence[Area],
        *,
        excludes: Sequence[Box] = (),
        expects: Sequence[Box] = (),
        default: Expansion | None = None,
    ) -> None:
        """``name`` is None for the whole catalog; then ``default`` gives the expectations of tests that are in it."""
        self.name = name
        self.universe = universe
        self.connector = connector
        self.areas = tuple(areas)
        self.excludes = tuple(excludes)
        self.expects = tuple(expects)
        self.default = default

    def count(self, selector: Sequence[Box] | None = None) -> int:
        """How many tests are in (unsupported ones too)."""
        return sum(len(row.column) for row in self._kept(selector))

    def ids(self, selector: Sequence[Box] | None = None) -> Iterator[str]:
        """The identifiers of the tests that are in (unsupported ones too)."""
        return chain.from_iterable(map(_ids, self._kept(selector)))

    def tests(self, selector: Sequence[Box] | None = None, *, excluded: bool = False) -> Iterator[Test]:
        """The tests that are in; with ``excluded`` those left out too, each in its place."""
        expects = self.expects if self.default is None else self.default.expects
        for row in walk(self.areas, selector, (*self.excludes, *expects)):
            yield from self._tests(row, excluded)

    def test(self, identifier: str) -> Test | None:
        """One test by its identifier, left out or not; None where no rule ever put it in."""
        return next(self.tests(self.universe.exact(identifier), excluded=True), None)

    def has(self, test: tuple[str, str, str, str]) -> bool:
        """Whether a test is in: put in by a rule, and not left out."""
        return any(test in area for area in self.areas) and not any(test in box for box in self.excludes)

    def _kept(self, selector: Sequence[Box] | None) -> Iterator[Row]:
        """The rows without what is left out; an empty row may be among them."""
        columns = Columns()
        for row in walk(self.areas, selector, self.excludes):
            yield replace(row, column=columns.drop(row.column, row.marks)) if row.marks else row

    def _tests(self, row: Row, excluded: bool) -> Iterator[Test]:
        framework, pipeline, target = row.framework, row.pipeline, row.target
        prefix = f"{framework}/{pipeline}/{target}/"
        drops = [box for box in row.marks if box.rule.kind == "exclude"]
        expects = [box for box in row.marks if box.rule.kind == "expect"]
        reason = why_in(row.area.rule)
        for workload in row.column:
            drop = _first(drops, workload)
            if drop is not None:
                if excluded:
                    yield _test(prefix, row, workload, reason=f"left out by {drop.position}: {drop.reason}")
                continue
            road = None if target == IR_TARGET else self.connector.road(framework, pipeline, target, workload)
            if isinstance(road, Unsupported):
                yield _test(prefix, row, workload, reason=road.reason, outcome="unsupported")
                continue
            expectation = _first(expects, workload)
            if expectation and self.default and not self.default.has((framework, pipeline, target, workload)):
                expectation = None
            yield _test(prefix, row, workload, reason=reason, road=road, expectation=expectation, selected=True)


def why_in(rule: Rule) -> str:
    """The reason of a test that nothing speaks against."""
    return f"in by {rule.position}" if rule.position else "in the catalog"


def _test(
    prefix: str,
    row: Row,
    workload: str,
    *,
    reason: str,
    road: Road | None = None,
    outcome: str | None = None,
    expectation: Rule | None = None,
    selected: bool = False,
) -> Test:
    name, cell = prefix + workload, (row.framework, row.pipeline, row.target)
    return Test(name, *cell, workload, road, outcome, reason, expectation, selected)


def _first(boxes: Sequence[Box], workload: str) -> Rule | None:
    """The first rule, in the suite's order, whose box holds the workload; the cell is known to match."""
    for box in boxes:
        if workload in box.workloads:
            return box.rule
    return None


def _ids(row: Row) -> list[str]:
    prefix = f"{row.framework}/{row.pipeline}/{row.target}/"
    return [prefix + name for name in row.column]
