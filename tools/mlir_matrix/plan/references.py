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
    return graph, {entry.name: add_reference(graph, catalog, entry) for entry in workloads}


def add_reference(
    graph: Graph, catalog: Catalog, workload: Entry[Workload], environment: str = "numpy", *, draw: int = 0
) -> str:
    """Add the action that computes what is right for one draw of the inputs; its outputs are ``expected-NAME``."""
    return _add(graph, catalog, workload, environment, draw=draw, tool="reference", gives=("expected",))


def add_forward_error(
    graph: Graph, catalog: Catalog, workload: Entry[Workload], environment: str = "numpy", *, draw: int = 0
) -> str:
    """Add the action that computes, besides ``expected-NAME``, how far a correct program may be from it: ``bound-NAME``."""
    gives = ("expected", "bound")
    return _add(graph, catalog, workload, environment, draw=draw, tool="forward_error", gives=gives)


def _add(
    graph: Graph,
    catalog: Catalog,
    workload: Entry[Workload],
    environment: str,
    *,
    draw: int,
    tool: str,
    gives: tuple[str, ...],
) -> str:
    made = add_inputs(graph, workload, environment, draw=draw)
    described = signature(workload.document)
    return graph.add(
        f"{tool.replace('_', '-')}/{workload.name}",
        tool=tool,
        stage="run",
        environment=environment,
        params={"inputs": described["inputs"], "outputs": described["outputs"]},
        inputs={
            "source": file_of(catalog, workload.root, workload.reference),
            **{f"arg-{name}": Produced(made, name) for name in workload.document.inputs},
        },
        outputs={
            f"{what}-{name}": f"{name}.npy" if what == "expected" else f"{name}.{what}.npy"
            for what in gives
            for name in workload.document.outputs
        },
    )
