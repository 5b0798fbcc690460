"""Plan the actions that compute goldens and measure them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlir_matrix.actions.params import (
    Bounds,
    DifferenceParams,
    ErrorParams,
    JudgedOutput,
    JudgeParams,
    NoParams,
    ProgramJudgeParams,
    SketchOutput,
    SketchParams,
)
from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.actions.tools.program import EXPECTED, INTERFACE
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import SKETCH, golden_name, is_sketched
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.numerics import Numerics
from mlir_matrix.expand.tolerances import resolve_everywhere
from mlir_matrix.plan.graph import Graph, Input, Produced
from mlir_matrix.plan.parameters import add_inputs, file_of, judged, label, like_outputs, signature, sizes
from mlir_matrix.plan.programs import add_prepared


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
    """Add the action that computes the reference for one draw of the inputs; its outputs are ``expected-NAME``.

    The tool ``forward_error`` also gives ``bound-NAME``: the largest error of a correct program; ``likely``: the one that tests
    are held to.
    """
    declared, outputs = signature(workload.document), workload.document.outputs
    made = add_inputs(graph, workload, environment, draw=draw)
    files = {f"expected-{name}": f"{name}.npy" for name in outputs}
    if tool == "forward_error":
        files |= {f"bound-{name}": f"{name}.bound.npy" for name in outputs}
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
            **{f"arg-{name}": each for name, each in made.items()},
        },
        outputs=files,
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
    return {name: Produced(action, f"expected-{name}") for name in workload.document.outputs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The actions that compute a workload's goldens, by output, and the action that compares them with the stored ones."""

    made: Mapping[str, Produced]
    differences: str
    #: The action that finds trivial outputs that pass, and its specifications: each output under each set of bounds.
    weak: str
    told: list[JudgedOutput]


def plan_update(
    catalog: Catalog, workloads: Iterable[Entry[Workload]], environment: str = "numpy"
) -> tuple[Graph, dict[str, Update]]:
    """Return the graph, and the actions of each workload in it."""
    graph, numerics = Graph(), Numerics(catalog)
    return graph, {entry.name: _add_update(graph, catalog, numerics, entry, environment) for entry in workloads}


def _add_update(
    graph: Graph, catalog: Catalog, numerics: Numerics, workload: Entry[Workload], environment: str
) -> Update:
    document = workload.document
    reference = add_reference(graph, catalog, workload, environment)
    made = {name: Produced(reference, f"expected-{name}") for name in document.outputs}
    sketched = {name: output for name, output in document.outputs.items() if is_sketched(document, output)}
    if sketched:
        action = graph.add(
            f"sketch/{workload.name}",
            tool="sketch",
            stage=Stage.RUN,
            environment=environment,
            params=SketchParams(
                outputs=[
                    SketchOutput(
                        name=name, dtype=each.dtype, shape=sizes(each.shape, document.dims), compare=each.compare
                    )
                    for name, each in sketched.items()
                ]
            ),
            inputs={f"expected-{name}": made[name] for name in sketched},
            outputs={f"sketch-{name}": f"{name}{SKETCH}" for name in sketched},
        )
        made |= {name: Produced(action, f"sketch-{name}") for name in sketched}
    # With the reference's source and inputs, for the bound of its own rounding.
    files: dict[str, Input] = dict(graph.actions[reference].inputs)
    declared = signature(document)
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
            inputs=declared["inputs"],
            outputs=[
                {**spec, "sketch": spec["name"] in sketched, "compare": document.outputs[spec["name"]].compare}
                for spec in declared["outputs"]
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


def plan_magnitudes(
    catalog: Catalog,
    workload: Entry[Workload],
    environment: str = "numpy",
    *,
    pins: Pins | None = None,
    bounds: Mapping[str, Bounds] | None = None,
) -> tuple[Graph, str]:
    """Return the graph that measures a workload's goldens, and its action; its output is ``magnitudes``.

    For a program in a form of others, give the ``pins`` that prepare it and the ``bounds`` of each dtype.
    """
    graph = Graph()
    params: NoParams | ProgramJudgeParams = {}
    if bounds is not None:
        prepared = add_prepared(graph, catalog, pins or Pins(catalog), workload)
        inputs: dict[str, Input] = {name: Produced(prepared, name) for name in (INTERFACE, EXPECTED)}
        params = {"outputs": [], "bounds": dict(bounds)}
    elif workload.document.golden == "computed":
        computed = add_expected(graph, catalog, workload, environment, stage=Stage.JUDGE)
        inputs = {f"golden-{name}": made for name, made in computed.items()}
    else:
        inputs = {
            f"golden-{name}": file_of(catalog, workload.root, workload.golden / f"{name}.npy", optional=True)
            for name in workload.document.outputs
        }
    action = graph.add(
        f"magnitudes/{label(workload)}",
        tool="magnitudes",
        stage=Stage.JUDGE,
        environment=environment,
        params=params,
        inputs=inputs,
        outputs={"magnitudes": "magnitudes.json"},
    )
    return graph, action
