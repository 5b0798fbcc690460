"""The graph that measures a workload's goldens."""

from __future__ import annotations

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import Workload
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.workloads import file_of


def plan_magnitudes(catalog: Catalog, workload: Entry[Workload], environment: str = "numpy") -> tuple[Graph, str]:
    """The graph, and its action, whose output ``magnitudes`` says how large the elements are."""
    graph = Graph()
    action = graph.add(
        f"magnitudes/{workload.name}",
        tool="magnitudes",
        stage="judge",
        environment=environment,
        params={},
        inputs={
            f"golden-{name}": file_of(catalog, workload.root, workload.golden / f"{name}.npy", optional=True)
            for name in workload.document.outputs
        },
        outputs={"magnitudes": "magnitudes.json"},
    )
    return graph, action
