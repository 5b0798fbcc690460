"""The graph that computes goldens: a workload's inputs, then its reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.goldens import SKETCH, golden_name, is_sketched
from mlir_matrix.catalog.models import Workload
from mlir_matrix.plan.graph import Graph, Input, Produced
from mlir_matrix.plan.workloads import add_inputs, file_of, signature, sizes


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


def add_expected(graph: Graph, catalog: Catalog, workload: Entry[Workload], environment: str) -> dict[str, Produced]:
    """Add the reference of a workload that keeps no goldens; return its results by output.

    It belongs to the judge's stage: where it fails, no program under test did.
    """
    action = _add(graph, catalog, workload, environment, draw=0, tool="reference", gives=("expected",), stage="judge")
    return {name: Produced(action, f"expected-{name}") for name in workload.document.outputs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The actions that make a workload's goldens anew: what gives each, by output, and what compares them with the old."""

    made: Mapping[str, Produced]
    differences: str


def plan_update(catalog: Catalog, workloads: Iterable[Entry[Workload]]) -> tuple[Graph, dict[str, Update]]:
    """The graph, and what it has for each workload."""
    graph = Graph()
    return graph, {entry.name: _add_update(graph, catalog, entry) for entry in workloads}


def _add_update(graph: Graph, catalog: Catalog, workload: Entry[Workload], environment: str = "numpy") -> Update:
    document = workload.document
    reference = add_reference(graph, catalog, workload, environment)
    made = {name: Produced(reference, f"expected-{name}") for name in document.outputs}
    sketched = [name for name, output in document.outputs.items() if is_sketched(document, output)]
    if sketched:
        action = graph.add(
            f"sketch/{workload.name}",
            tool="sketch",
            stage="run",
            environment=environment,
            params={"outputs": [_told(document, name) for name in sketched]},
            inputs={f"expected-{name}": made[name] for name in sketched},
            outputs={f"sketch-{name}": f"{name}{SKETCH}" for name in sketched},
        )
        made |= {name: Produced(action, f"sketch-{name}") for name in sketched}
    files: dict[str, Input] = {}
    for name in document.outputs:
        path = workload.golden / golden_name(document, name)
        files[f"new-{name}"] = made[name]
        files[f"old-{name}"] = file_of(catalog, workload.root, path, optional=True)
    differences = graph.add(
        f"golden-difference/{workload.name}",
        tool="golden_difference",
        stage="run",
        environment=environment,
        params={"outputs": [{"name": name, "sketch": name in sketched} for name in document.outputs]},
        inputs=files,
        outputs={"differences": "differences.json"},
    )
    return Update(made=made, differences=differences)


def _told(workload: Workload, name: str) -> dict[str, Any]:
    output = workload.outputs[name]
    shape = sizes(output.shape, workload.dims)
    return {"name": name, "dtype": output.dtype, "shape": shape, "compare": output.compare}


def _add(
    graph: Graph,
    catalog: Catalog,
    workload: Entry[Workload],
    environment: str,
    *,
    draw: int,
    tool: str,
    gives: tuple[str, ...],
    stage: str = "run",
) -> str:
    made = add_inputs(graph, workload, environment, draw=draw)
    described = signature(workload.document)
    return graph.add(
        f"{tool.replace('_', '-')}/{workload.name}",
        tool=tool,
        stage=stage,
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
