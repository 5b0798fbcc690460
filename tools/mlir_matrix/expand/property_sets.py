"""From what a suite says of properties to areas of tests. What is wrong with a property is found here, as in :mod:`expand`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.suites import Suite
from mlir_matrix.errors import CatalogError
from mlir_matrix.expand.expansion import Expansion
from mlir_matrix.expand.properties import selfish, senseless
from mlir_matrix.expand.test_sets import Area, Box, Rule, Stated
from mlir_matrix.names import OF

#: The boxes of a rule that meet the suite's tests; raises CatalogError where there are none.
Touching = Callable[[Rule], Iterable[Box]]


def property_areas(catalog: Catalog, suite: Entry[Suite], areas: Sequence[Area], touching: Touching) -> list[Area]:
    """The tests with properties of a suite whose other tests are ``areas``."""
    found: list[Area] = []
    for index, document in enumerate(suite.document.properties):
        position = suite.source.position("properties", index)
        stated = Stated(name=document.called, law=document.law, position=position)
        for number, glob in enumerate(document.tests):
            where = suite.source.position("properties", index, "tests", number)
            rule = Rule("property", where, glob, document.reason.strip())
            made = list(_having(areas, stated, touching(rule)))
            if not made:
                raise CatalogError(f"{where}: property {glob} matches IR tests alone, which are checked and not run")
            for area in made:
                _check_area(catalog, area, stated)
            found += made
    _check_names(found)
    return found


def _having(areas: Iterable[Area], stated: Stated, boxes: Iterable[Box]) -> Iterator[Area]:
    for box in boxes:
        for area in areas:
            if not area.is_ir and (made := area.having(stated, box)):
                yield made


def _check_area(catalog: Catalog, area: Area, stated: Stated) -> None:
    """A property says something of each of its tests."""
    why = selfish(stated.law, (area.frameworks, area.pipelines, area.targets))
    if why:
        raise CatalogError(f"{stated.position}: property {stated.name}: {why}")
    for name in area.column:
        workload = name.partition(OF)[0]
        why = senseless(catalog.workloads[workload].document, stated.law)
        if why:
            raise CatalogError(f"{stated.position}: property {stated.name} of workload {workload}: {why}")


def _check_names(areas: Sequence[Area]) -> None:
    """No test has two properties of one name."""
    for number, area in enumerate(areas):
        for other in areas[:number]:
            assert area.stated is not None
            assert other.stated is not None
            if other.stated.position != area.stated.position and (name := _shared(area, other)):
                raise CatalogError(
                    f"{area.stated.position}: {name} has a property of this name by {other.stated.position}; "
                    "give one of them another 'name'"
                )


def _shared(area: Area, other: Area) -> str:
    """The identifier of a test that is in both, without its pins; empty where there is none."""
    axes = zip(
        (area.frameworks, area.pipelines, area.targets, area.column, area.pins),
        (other.frameworks, other.pipelines, other.targets, other.column, other.pins),
        strict=True,
    )
    common = [next((name for name in mine if name in theirs), None) for mine, theirs in axes]
    return "" if None in common else "/".join(map(str, common[:4]))


def check_properties(expansion: Expansion) -> None:
    """Each pattern of a property must speak about a test that can run: else all would be unsupported, and the run green."""
    idle: dict[Rule, str] = {area.rule: "" for area in expansion.areas if area.stated}
    if not idle:
        return
    boxes = [Box.of(map(frozenset, _axes(area)), area.rule) for area in expansion.areas if area.stated]
    for test in expansion.tests(boxes, excluded=True):
        key = (test.framework, test.pipeline, test.target, test.called, test.pins)
        for rule in dict.fromkeys(area.rule for area in expansion.areas if area.rule in idle and key in area):
            if test.selected:
                idle.pop(rule)
            else:
                idle[rule] = f"{test.id} is {test.outcome or 'out'}: {test.reason}"
        if not idle:
            return
    for rule, why in idle.items():
        raise CatalogError(f"{rule.position}: property {rule.text} speaks about no test that can run: {why}")


def _axes(area: Area) -> tuple[tuple[str, ...], ...]:
    return area.frameworks, area.pipelines, area.targets, area.column
