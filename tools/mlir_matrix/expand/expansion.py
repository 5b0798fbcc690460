"""Expand a suite or the whole catalog: count and list tests by cell and column; build single tests on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.pins import MARK, read_pins
from mlir_matrix.errors import UsageError
from mlir_matrix.expand.properties import Relation, relate
from mlir_matrix.expand.recipes import Recipe, Unsupported
from mlir_matrix.expand.routes import Connector, Road
from mlir_matrix.expand.test_sets import IR_TARGET, Area, Box, Columns, Key, Row, Rule, Universe, walk
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
    road: Road | None
    #: What the step of an IR test is.
    recipe: Recipe | None
    #: ``unsupported`` where that is already known, else None.
    outcome: Outcome | None
    #: ``in by FILE:LINE:COLUMN``, why it is unsupported, or who left it out and why.
    reason: str
    #: The ``expect`` rule that holds for it.
    expectation: Rule | None
    #: True for what can run: neither unsupported nor left out.
    selected: bool
    #: What must hold between runs, where that is the test.
    relation: Relation | None = None
    #: Where a suite says that a weak pass, which a trivial output would be, too, is a failure; empty where none does.
    weak_fails: str = ""

    @property
    def cell(self) -> str:
        """The identifier of its cell, with the pins that the suite varies."""
        return f"{self.framework}/{self.pipeline}/{self.target}{f'@{self.pins}' if self.pins else ''}"

    @property
    def called(self) -> str:
        """The workload, with the property where the test is of one: ``matmul~scaling``."""
        return f"{self.workload}{OF}{self.relation.name}" if self.relation else self.workload

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
        weak_fails: str = "",
    ) -> None:
        """``name`` is None for the whole catalog; then ``default`` gives what is expected of the tests that are in it."""
        self.name = name
        self.universe = universe
        self.connector = connector
        self.areas = tuple(areas)
        self.excludes = tuple(excludes)
        self.expects = tuple(expects)
        self.default = default
        self.weak_fails = weak_fails

    def count(self, selector: Sequence[Box] | None = None) -> int:
        """Count the tests that are in, unsupported ones included."""
        return sum(len(row.column) for row in self._kept(selector))

    def ids(self, selector: Sequence[Box] | None = None) -> Iterator[str]:
        """Return the identifiers of the tests that are in, unsupported ones included."""
        return chain.from_iterable(map(_ids, self._kept(selector)))

    def tests(self, selector: Sequence[Box] | None = None, *, excluded: bool = False) -> Iterator[Test]:
        """Return the tests that are in; with ``excluded``, also those left out, each in its place."""
        expects = self.expects if self.default is None else self.default.expects
        for row in walk(self.areas, selector, (*self.excludes, *expects)):
            yield from self._tests(row, excluded)

    def test(self, identifier: str) -> Test | None:
        """Return a test by its identifier, excluded or not; None where no rule includes it."""
        return next(self.tests(self.universe.exact(self.spelled(identifier)), excluded=True), None)

    def spelled(self, glob: str) -> str:
        """A glob or an identifier with the pins that a person gives as its tests have them.

        ``@llvm=19.1.7`` names the tests of a suite that says 19. What names no releases stays as it is.
        """
        test, mark, pins = glob.partition(MARK)
        return f"{test}{mark}{self.spelling(pins)}" if pins else glob

    def spelling(self, pins: str) -> str:
        """Pins as the tests have them."""
        meant = None if pins in self._varied else self._meaning(pins)
        return next((own for own, means in self._varied.items() if meant and means == meant), pins)

    @cached_property
    def _varied(self) -> dict[str, frozenset[tuple[str, str]] | None]:
        return {pins: self._meaning(pins) for area in self.areas for pins in area.pins if pins}

    def _meaning(self, pins: str) -> frozenset[tuple[str, str]] | None:
        """The releases in full that pins name, in whatever order; None where they name none."""
        try:
            return frozenset(read_pins(self.connector.catalog, pins.split(",")).items())
        except UsageError:
            return None

    def has(self, test: Key) -> bool:
        """Return whether a test is in: included by a rule, and not excluded."""
        return any(test in area for area in self.areas) and not any(test in box for box in self.excludes)

    def _kept(self, selector: Sequence[Box] | None) -> Iterator[Row]:
        """The rows without what is left out; an empty row may be among them."""
        columns = Columns()
        for row in walk(self.areas, selector, self.excludes):
            yield replace(row, column=columns.drop(row.column, row.marks)) if row.marks else row

    def _tests(self, row: Row, excluded: bool) -> Iterator[Test]:
        framework, pipeline, target, pins = row.framework, row.pipeline, row.target, row.pins
        make = _Maker(row)
        drops = [box for box in row.marks if box.rule.kind == "exclude"]
        expects = [box for box in row.marks if box.rule.kind == "expect"]
        reason = why_in(row.area.rule)
        for workload in row.column:
            drop = _first(drops, workload)
            if drop is not None:
                if excluded:
                    yield make(workload, reason=f"left out by {drop.position}: {drop.reason}")
                continue
            found, relation = self._found(row, workload)
            if isinstance(found, Unsupported):
                yield make(workload, reason=found.reason, outcome=Outcome.UNSUPPORTED)
                continue
            expectation = _first(expects, workload)
            if expectation and self.default and not self.default.has((framework, pipeline, target, workload, pins)):
                expectation = None
            yield make(
                workload, reason=reason, found=found, expectation=expectation, selected=True, relation=relation,
                weak_fails=self._weak_fails((framework, pipeline, target, workload, pins)),
            )  # fmt: skip

    def _weak_fails(self, test: Key) -> str:
        """Where a weak pass of a test is said to be a failure: in its suite, or in the default one where that has it."""
        if self.default is None:
            return self.weak_fails
        return self.default.weak_fails if self.default.weak_fails and self.default.has(test) else ""

    def why_unsupported(self, row: Row, called: str) -> str:
        """Return why a test of a row is unsupported, excluded or not; empty where it is supported."""
        found = self._found(row, called)[0]
        return found.reason if isinstance(found, Unsupported) else ""

    def _found(self, row: Row, called: str) -> tuple[Road | Recipe | Unsupported, Relation | None]:
        """What a test of a row takes, and the property that it is of; ``called`` is its name in the column."""
        framework, pipeline, target, pins = row.framework, row.pipeline, row.target, row.pins
        if target == IR_TARGET:
            return self.connector.recipe(pipeline, pins), None
        stated = row.area.stated
        if stated is None:
            return self.connector.road(framework, pipeline, target, called, pins), None
        workload = called.partition(OF)[0]
        road = self.connector.road(framework, pipeline, target, workload, pins)
        if isinstance(road, Unsupported):
            return road, None
        relation = relate(self.connector, stated, (framework, pipeline, target, workload, pins), road)
        return (relation, None) if isinstance(relation, Unsupported) else (road, relation)


def why_in(rule: Rule) -> str:
    """Return the reason of a test that is selected."""
    return f"in by {rule.position}" if rule.position else "in the catalog"


class _Maker:
    """Makes the tests of one row, which share their cell and pins."""

    def __init__(self, row: Row) -> None:
        self._prefix = f"{row.framework}/{row.pipeline}/{row.target}/"
        self._cell = (row.framework, row.pipeline, row.target)
        self._pins, self._suffix = row.pins, row.suffix
        self._relation = Relation.of(row.area.stated) if row.area.stated else None

    def __call__(
        self,
        workload: str,
        *,
        reason: str,
        found: Road | Recipe | None = None,
        outcome: Outcome | None = None,
        expectation: Rule | None = None,
        selected: bool = False,
        relation: Relation | None = None,
        weak_fails: str = "",
    ) -> Test:
        name = self._prefix + workload + self._suffix
        road, recipe = (None, found) if isinstance(found, Recipe) else (found, None)
        if self._relation:
            workload, relation = workload.partition(OF)[0], relation or self._relation
        return Test(
            name, *self._cell, workload, self._pins, road, recipe, outcome, reason, expectation, selected, relation,
            weak_fails,
        )  # fmt: skip


def _first(boxes: Sequence[Box], workload: str) -> Rule | None:
    """The first rule, in the suite's order, whose box holds the workload; the cell is known to match."""
    for box in boxes:
        if workload in box.workloads:
            return box.rule
    return None


def _ids(row: Row) -> list[str]:
    prefix, suffix = f"{row.framework}/{row.pipeline}/{row.target}/", row.suffix
    return [prefix + name + suffix for name in row.column]
