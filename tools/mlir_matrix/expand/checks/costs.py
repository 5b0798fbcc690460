"""Check goldens of costs: their names, the tests that they are for, and that no two layers are for the same tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain

from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.catalog import LocatedLayer
from mlir_matrix.catalog.models.costs import NAMES, PREFIXES, CostLayer, is_cost
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.checks.tolerances import match_names


def check(checker: Checker) -> None:
    """Check all layers of costs."""
    catalog = checker.catalog
    #: By file and what they match, the first such layer.
    first: dict[tuple[str, str], LocatedLayer[CostLayer]] = {}
    for layer in catalog.cost_layers:
        document, at = layer.document, ("layers", layer.index)
        workloads: Collection[str] = catalog.workloads
        if layer.workload is not None:
            workloads = [layer.workload]
            if not checker.known(layer.source, "workload", layer.workload, catalog.workloads):
                continue
        match_names(checker, layer, "workload", workloads)
        for axis in ("target", "pipeline", "framework"):
            match_names(checker, layer, axis, catalog.axes[axis])
        for key, given in (("costs", document.costs), ("bounds", document.bounds)):
            _check_names(checker, layer, key, given)
        if not document.costs and not document.bounds:
            checker.wrong(layer.source, "this layer has neither 'costs' nor 'bounds'", *at)
        if document.bounds and document.rationale is None:
            checker.wrong(layer.source, "the key 'rationale' is missing: the reason for these bounds", *at)
        other = first.setdefault((layer.source.file, document.match.model_dump_json()), layer)
        if other is not layer:
            checker.wrong(layer.source, f"{other.position} is for the same tests; a file has one layer for them", *at)


def _check_names(checker: Checker, layer: LocatedLayer[CostLayer], key: str, given: Mapping[str, object]) -> None:
    """Check that costs are known; a bound may name how several begin, ``cycles_*``."""
    groups = [f"{prefix}*" for prefix in PREFIXES]
    levels = [f"operations_{kind.replace('-', '_')}" for kind in checker.catalog.kinds]
    for name in given:
        if name in groups and key == "bounds":
            continue
        if is_cost(name) and (not name.startswith("operations_") or name in levels):
            continue
        near = did_you_mean(name, [*chain(NAMES, levels), *groups])
        checker.wrong(
            layer.source, f"there is no exact cost '{printable(name)}'{near}", "layers", layer.index, key, name
        )
