"""Plan the actions that compute goldens and measure them."""

from __future__ import annotations

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import ErrorParams
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.parameters import add_inputs, file_of, signature


def add_reference(
    graph: Graph,
    catalog: Catalog,
    workload: Entry[Workload],
    environment: str = "numpy",
    *,
    draw: int = 0,
    tool: str = "reference",
    stage: Stage = Stage.RUN,
    likely: bool = False,
) -> str:
    """Add the action that computes the reference for one draw of the inputs. Its outputs are ``expected-NAME``.

    The tool ``forward_error`` also writes ``bound-NAME``: the largest error of a correct program, or with ``likely`` the likely
    error, which is the bound of tests.
    """
    declared, outputs = signature(workload.document), workload.document.outputs
    made = add_inputs(graph, workload, environment, draw=draw)
    files = {Role.EXPECTED.of(name): f"{name}.npy" for name in outputs}
    if tool == "forward_error":
        files |= {Role.BOUND.of(name): f"{name}.bound.npy" for name in outputs}
    params = ErrorParams(inputs=declared["inputs"], outputs=declared["outputs"])
    if likely:
        params["likely"] = True
    return graph.add(
        f"{tool.replace('_', '-')}/{workload.name}",
        tool=tool,
        stage=stage,
        environment=environment,
        params=params,
        inputs={
            "source": file_of(catalog, workload.root, workload.reference),
            **{Role.ARGUMENT.of(name): each for name, each in made.items()},
        },
        outputs=files,
    )


def add_error_bounds(graph: Graph, catalog: Catalog, workload: Entry[Workload], environment: str, draw: int = 0) -> str:
    """Add the action that derives the bound of each element of a workload's outputs, by which tests are judged."""
    return add_reference(
        graph, catalog, workload, environment, draw=draw, tool="forward_error", stage=Stage.JUDGE, likely=True
    )


def add_expected(
    graph: Graph,
    catalog: Catalog,
    workload: Entry[Workload],
    environment: str,
    *,
    draw: int = 0,
    stage: Stage = Stage.RUN,
) -> dict[str, Produced]:
    """Add the reference of a workload; return its results by output."""
    action = add_reference(graph, catalog, workload, environment, draw=draw, stage=stage)
    return {name: Produced(action, Role.EXPECTED.of(name)) for name in workload.document.outputs}
