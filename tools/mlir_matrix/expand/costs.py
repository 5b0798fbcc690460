"""Resolve the goldens of a test's costs: each cost, and each bound, is from the most specific layer that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from mlir_matrix.catalog.catalog import Catalog, LocatedLayer
from mlir_matrix.catalog.models.costs import CostLayer
from mlir_matrix.expand.expansion import CostRule, Test
from mlir_matrix.expand.layers import LayerRanking


@dataclass(frozen=True, kw_only=True)
class CostBound:
    """How much a cost may be worse than another value of it, as its layer writes it (``1 %``), and its position."""

    text: float | str = 0
    #: Empty if no layer has a bound. Then the cost must not get worse at all.
    position: str = ""

    def allowed(self, golden: float) -> float:
        """Return the bound for a golden, in the cost's unit."""
        if not isinstance(self.text, str):
            return self.text
        share, _, more = self.text.partition("%")
        return float(share) * golden / 100 + float(more.strip(" +") or 0)


@dataclass(frozen=True, kw_only=True)
class CostGolden:
    """The golden of one cost, with its bound."""

    value: float
    #: ``file:line:column`` of the value.
    position: str
    bound: CostBound


class CostResolver:
    """The goldens of the costs of tests in one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @cached_property
    def _ranking(self) -> LayerRanking[CostLayer]:
        """The layers by rank; most runs ask for no cost."""
        return LayerRanking(self._catalog.cost_layers)

    def of(self, test: Test) -> dict[str, CostGolden]:
        """Return the goldens of a test by cost. A test of a property, or of a release that its suite varies, has none."""
        found: dict[str, CostGolden] = {}
        if test.is_ir or test.pins or test.tested_property is not None:
            return found
        for layer in self._matching(test):
            for name, value in layer.document.costs.items():
                if name not in found:
                    position = layer.source.position("layers", layer.index, "costs", name)
                    found[name] = CostGolden(value=value, position=position, bound=self.bound(test, name))
        return found

    def bound(self, test: Test, cost: str) -> CostBound:
        """Return the bound of a cost of a test; none stated: 0."""
        group = f"{cost.partition('_')[0]}_*"
        for layer in self._matching(test):
            for name in (cost, group):
                if name in layer.document.bounds:
                    position = layer.source.position("layers", layer.index, "bounds", name)
                    return CostBound(text=layer.document.bounds[name], position=position)
        return CostBound()

    def _matching(self, test: Test) -> Iterator[LocatedLayer[CostLayer]]:
        """Return the layers that match a test, the most specific first."""
        # No output, dtype or numerics attribute: no layer of costs asks for one.
        matching = self._ranking.matching((test.workload, "", "", test.target, (), test.pipeline, test.framework))
        for bit in range(len(self._ranking.ranked) - 1, -1, -1):
            if matching >> bit & 1:
                yield self._ranking.ranked[bit].layer


def with_costs(tests: Iterable[Test], *, detailed: bool = True) -> list[Test]:
    """Return tests whose costs are counted, none of which fails for them, whatever their suites want."""
    rule = CostRule(fails=False, position="", detailed=detailed)
    return [replace(test, cost=rule) for test in tests]


def of_command_line(tests: Iterable[Test], *, cost: bool, strict: bool) -> list[Test]:
    """Return tests with what ``--cost`` and ``--strict`` want of their costs, beside what their suites want.

    ``cost``: count those of all tests. ``strict``: a test that costs more than its golden fails.
    """
    found = []
    for test in tests:
        rule = test.cost
        if rule is None and cost:
            rule = CostRule(fails=False, position="--cost")
        if rule is not None and strict:
            rule = rule._replace(fails=True)
        found.append(replace(test, cost=rule))
    return found
