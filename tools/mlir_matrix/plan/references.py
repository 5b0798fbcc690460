"""The graph that computes goldens: a workload's inputs, then its reference."""

from __future__ import annotations

from collections.abc import Iterable

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import Workload
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.workloads import add_inputs, file_of, signature


def plan_references(catalog: Catalog, workloads: Iterable[Entry[Workload]]) -> tuple[Graph, dict[str, str]]:
    """The graph, and for each workload the action that gives its expected outputs."""
    graph = Graph()
    ends = {}
    for entry in workloads:
        made = add_inputs(graph, entry)
        described = signature(entry.document)
        ends[entry.name] = graph.add(
            f"reference/{entry.name}",
            tool="reference",
            stage="run",
            environment="numpy",
            params={"inputs": described["inputs"], "outputs": described["outputs"]},
            inputs={
                "source": file_of(catalog, entry.root, entry.reference),
                **{f"arg-{name}": Produced(made, name) for name in entry.document.inputs},
            },
            outputs={f"expected-{name}": f"{name}.npy" for name in entry.document.outputs},
        )
    return graph, ends
