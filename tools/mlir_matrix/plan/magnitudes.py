"""The graph that measures a workload's goldens."""

from __future__ import annotations

from collections.abc import Mapping

from mlir_matrix.actions.params import NoParams
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.plan.goldens import add_expected
from mlir_matrix.plan.graph import Graph, Input
from mlir_matrix.plan.parameters import file_of


def plan_magnitudes(catalog: Catalog, workload: Entry[Workload], environment: str = "numpy") -> tuple[Graph, str]:
    """The graph, and its action, whose output ``magnitudes`` says how large the elements are."""
    graph = Graph()
    goldens: Mapping[str, Input] = {
        name: file_of(catalog, workload.root, workload.golden / f"{name}.npy", optional=True)
        for name in workload.document.outputs
    }
    if workload.document.golden == "computed":
        goldens = add_expected(graph, catalog, workload, environment)
    action = graph.add(
        f"magnitudes/{workload.name}",
        tool="magnitudes",
        stage="judge",
        environment=environment,
        params=NoParams(),
        inputs={f"golden-{name}": made for name, made in goldens.items()},
        outputs={"magnitudes": "magnitudes.json"},
    )
    return graph, action
