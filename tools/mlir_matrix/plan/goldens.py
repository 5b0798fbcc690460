"""Plan the actions that compute goldens and measure them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlir_matrix.actions.params import (
    DifferenceParams,
    JudgedOutput,
    JudgeParams,
    NoParams,
    SignatureParams,
    SketchOutput,
    SketchParams,
)
from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import SKETCH, golden_name, is_sketched
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.plan.graph import Graph, Input, Produced
from mlir_matrix.plan.parameters import add_inputs, file_of, judged, like_outputs, signature, sizes
from mlir_matrix.tolerances.numerics import Numerics
from mlir_matrix.tolerances.resolve import resolve_everywhere


def add_reference(
    graph: Graph, catalog: Catalog, workload: Entry[Workload], environment: str = "numpy", *, draw: int = 0
) -> str:
    """Add the action that computes the reference for one draw of the inputs; its outputs are ``expected-NAME``."""
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
    action = _add(
        graph, catalog, workload, environment, draw=0, tool="reference", gives=("expected",), stage=Stage.JUDGE
    )
    return {name: Produced(action, f"expected-{name}") for name in workload.document.outputs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The actions that make a workload's goldens anew: what gives each, by output, and what compares them with the old."""

    made: Mapping[str, Produced]
    differences: str
    #: The action that says which trivial outputs pass, and what it is told: an entry for each output under each set of bounds.
    weak: str
    told: list[JudgedOutput]


def plan_update(catalog: Catalog, workloads: Iterable[Entry[Workload]]) -> tuple[Graph, dict[str, Update]]:
    """Return the graph, and the actions of each workload in it."""
    graph, numerics = Graph(), Numerics(catalog)
    return graph, {entry.name: _add_update(graph, catalog, numerics, entry) for entry in workloads}


def _add_update(
    graph: Graph, catalog: Catalog, numerics: Numerics, workload: Entry[Workload], environment: str = "numpy"
) -> Update:
    document = workload.document
    reference = add_reference(graph, catalog, workload, environment)
    made = {name: Produced(reference, f"expected-{name}") for name in document.outputs}
    sketched = [name for name, output in document.outputs.items() if is_sketched(document, output)]
    if sketched:
        action = graph.add(
            f"sketch/{workload.name}",
            tool="sketch",
            stage=Stage.RUN,
            environment=environment,
            params=SketchParams(outputs=[_told(document, name) for name in sketched]),
            inputs={f"expected-{name}": made[name] for name in sketched},
            outputs={f"sketch-{name}": f"{name}{SKETCH}" for name in sketched},
        )
        made |= {name: Produced(action, f"sketch-{name}") for name in sketched}
    # The bound of the reference's own rounding is of the reference, and its inputs.
    computed = graph.actions[reference]
    files: dict[str, Input] = dict(computed.inputs)
    described = signature(document)
    for name in document.outputs:
        path = workload.golden / golden_name(document, name)
        files[f"new-{name}"] = made[name]
        files[f"old-{name}"] = file_of(catalog, workload.root, path, optional=True)
    differences = graph.add(
        f"golden-difference/{workload.name}",
        tool="golden_difference",
        stage=Stage.RUN,
        environment=environment,
        params=DifferenceParams(
            inputs=described["inputs"],
            outputs=[
                {**spec, "sketch": spec["name"] in sketched, "compare": document.outputs[spec["name"]].compare}
                for spec in described["outputs"]
            ],
        ),
        inputs=files,
        outputs={"differences": "differences.json"},
    )
    told = [
        spec
        for bounds in resolve_everywhere(catalog, numerics, workload.name)
        for spec in judged(catalog, document, bounds)
    ]
    weak = graph.add(
        f"weak/{workload.name}",
        tool="weak",
        stage=Stage.JUDGE,
        environment=environment,
        params=JudgeParams(outputs=told),
        inputs={
            **{f"{'sketch' if name in sketched else 'expected'}-{name}": file for name, file in made.items()},
            **like_outputs(graph, workload, environment),
        },
        outputs={"weak": "weak.json"},
    )
    return Update(made=made, differences=differences, weak=weak, told=told)


def plan_magnitudes(catalog: Catalog, workload: Entry[Workload], environment: str = "numpy") -> tuple[Graph, str]:
    """Return the graph that measures a workload's goldens, and its action; its output is ``magnitudes``."""
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
        stage=Stage.JUDGE,
        environment=environment,
        params=NoParams(),
        inputs={f"golden-{name}": made for name, made in goldens.items()},
        outputs={"magnitudes": "magnitudes.json"},
    )
    return graph, action


def _told(workload: Workload, name: str) -> SketchOutput:
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
    stage: Stage = Stage.RUN,
) -> str:
    made = add_inputs(graph, workload, environment, draw=draw)
    described = signature(workload.document)
    return graph.add(
        f"{tool.replace('_', '-')}/{workload.name}",
        tool=tool,
        stage=stage,
        environment=environment,
        params=SignatureParams(inputs=described["inputs"], outputs=described["outputs"]),
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
