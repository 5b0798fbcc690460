"""Explain the bounds of a test: numerics attributes, layers, the winning bounds and their values."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import (
    Bounds,
    NoParams,
    ProgramJudgeParams,
)
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE
from mlir_matrix.base.text import harmless
from mlir_matrix.catalog.bounds import DERIVED, EPS, substituted
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import FLOATS, Output, Workload
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.numerics import NumericsAttribute, shown
from mlir_matrix.expand.tolerances import BOUNDS, Resolved
from mlir_matrix.plan.graph import Graph, Input, Produced
from mlir_matrix.plan.parameters import file_of, label, sizes
from mlir_matrix.plan.programs import add_prepared
from mlir_matrix.plan.references import add_error_bounds, add_expected

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import Census, Verdict
    from mlir_matrix.golden.documents import (
        ExplainedElements,
        ExplainedLayer,
        ExplainedOutput,
        ExplainedSize,
        GoldenExplanation,
    )

_WIDTH = 110
#: The sizes of expected values for which bounds are shown.
_AT: Mapping[Literal["zero", "median", "largest"], str] = {
    "zero": "0",
    "median": "the golden's median",
    "largest": "the golden's largest",
}


def explained(
    identifier: str,
    workload: Workload,
    attributes: Sequence[NumericsAttribute],
    bounds: Mapping[str, Resolved],
    *,
    magnitudes: Mapping[str, Mapping[str, Any]],
    last: Verdict | None,
    oracle: str | None = None,
    scaled: str = "",
) -> GoldenExplanation:
    """Return the document of ``matrix golden explain``.

    ``magnitudes``: the sizes of elements in goldens. ``last``: the last verdict. ``oracle``: the origin of the expected output of
    a program in a foreign form. ``scaled``: which numbers of the program were reduced.
    """
    verdicts = {output["name"]: output for output in last["outputs"]} if last else {}
    return {
        "schema": "mlir-matrix/golden-explanation/v1",
        "id": identifier,
        "summary": {"attributes": len(attributes), "outputs": len(workload.outputs)},
        "scaled": scaled,
        "attributes": [
            {"name": one.name, "value": one.value, "by": one.by, "position": one.position, "counts": one.counts}
            for one in attributes
        ],
        "outputs": [
            _output(workload, name, output, bounds[name], magnitudes.get(name, {}), verdicts.get(name))
            | _own(magnitudes.get(name, {}), oracle)
            for name, output in workload.outputs.items()
        ],
    }


def declared(workload: Workload, magnitudes: Mapping[str, Mapping[str, Any]]) -> Workload:
    """Return a program in a foreign form with the outputs that its code declares, from the tool ``magnitudes``."""
    outputs = {
        name: Output(
            shape=each["shape"], dtype=each["dtype"], compare="numeric" if each["dtype"] in FLOATS else "exact"
        )
        for name, each in magnitudes.items()
    }
    return workload.model_copy(update={"outputs": outputs})


def _own(magnitudes: Mapping[str, Any], oracle: str | None) -> ExplainedOutput:
    """Return the facts about an output of a program in a foreign form. If elements have their own bounds, these count."""
    found: dict[str, Any] = {} if oracle is None else {"oracle": " ".join(oracle.split())}
    if "rationale" in magnitudes:
        own = _element_bounds(magnitudes["rationale"], magnitudes)
        found |= {"element_bounds": own, "bounds": {}, "meaning": []}
    return cast("ExplainedOutput", found)


def _element_bounds(rationale: str, magnitudes: Mapping[str, Any]) -> ExplainedElements:
    """Return where the bounds of elements come from, and their sizes, which are None where they are not measured."""
    own = magnitudes.get("bound", {})
    return {"rationale": rationale, "median": own.get("median"), "largest": own.get("largest")}


def _output(
    workload: Workload,
    name: str,
    output: Output,
    bound: Resolved,
    magnitudes: Mapping[str, Any],
    verdict: Census | None,
) -> ExplainedOutput:
    exact = output.compare == "exact"
    found: ExplainedOutput = {
        "name": name,
        "dtype": output.dtype,
        "shape": sizes(output.shape, workload.dims),
        "compare": output.compare,
        "layers": [{"layer": one.location, "applies": one.applies, "why": one.why} for one in bound.considered],
        "layer": bound.location,
        "rationale": " ".join(bound.rationale.split()),
        "bounds": {
            key: {
                "text": str(written := getattr(bound.layer.document, key)),
                "substituted": substituted(written, workload.dims, output.dtype),
                "value": getattr(bound, key),
            }
            for key in BOUNDS
            if getattr(bound, key) is not None
        },
        "meaning": [] if exact else list(_meaning(bound, output.dtype, magnitudes)),
        "last": verdict
        and {
            "outcome": verdict["outcome"],
            "reason": verdict["reason"],
            "error_used": verdict.get("error_used"),
            "max_abs": verdict.get("max_abs"),
        },
    }
    if bound.derived and output.dtype in FLOATS and not exact:
        rationale = f"{DERIVED}; elements without such a bound:"
        found["element_bounds"] = _element_bounds(rationale, magnitudes)
        found["meaning"] = []
    return found


def _meaning(bound: Resolved, dtype: str, magnitudes: Mapping[str, float]) -> Iterator[ExplainedSize]:
    """Yield the largest accepted error for expected values of some sizes."""
    known = {"zero": 0.0, **magnitudes}
    for name in _AT:
        if name in known:
            size = known[name]
            error = bound.atol + bound.rtol * size
            yield {"at": name, "size": size, "bound": error, "ulp": _in_last_places(error, size, dtype)}


def _in_last_places(error: float, size: float, dtype: str) -> float | None:
    """Return an error in units of the last place of a number of this size; None near 0."""
    eps = EPS.get(dtype)
    if not eps or not size:
        return None
    return error / (eps * 2.0 ** math.floor(math.log2(size)))


def tolerance_lines(document: GoldenExplanation) -> Iterator[str]:
    """Yield the lines of the text."""
    yield document["id"]
    yield ""
    if document["scaled"]:
        yield f"Scaled, because the program is too large for a test: {harmless(document['scaled'])}"
    yield "Numerics attributes" if document["attributes"] else "Numerics attributes: none"
    for attribute in document["attributes"]:
        value = f"{attribute['name']} = {shown(attribute['value'])}, by {attribute['by']} ({attribute['position']})"
        yield f"  {value}{'' if attribute['counts'] else ', overridden by a more specific statement'}"
    for output in document["outputs"]:
        yield ""
        yield f"{output['name']}: {output['dtype']} {output['shape']}, compared: {output['compare']}"
        yield from (f"  {line}" for line in _output_lines(output))


def _output_lines(output: ExplainedOutput) -> Iterator[str]:
    if output["compare"] == "exact":
        yield "must be equal; no layer applies"
    else:
        yield from _bounds_lines(output)
    last = output["last"]
    if last is None:
        yield "Last verdict: none in the cache; matrix run makes one"
    elif last["error_used"] is None:
        yield f"Last verdict: {last['outcome']}, {last['reason']}"
    else:
        used = 100 * float(last["error_used"])
        yield f"Last verdict: {last['outcome']}; the worst error takes {used:.3g} % of its bound"


def _bounds_lines(output: ExplainedOutput) -> Iterator[str]:
    yield "Layers, from general to specific"
    others = [layer for layer in output["layers"] if _is_of_another_workload(layer)]
    if others:
        yield f"  –       {len(others)} in the folders of other workloads"
    for layer in output["layers"]:
        if layer not in others:
            wins = layer["layer"] == output["layer"] and layer["applies"]
            state = "wins" if wins else "applies" if layer["applies"] else "–"
            yield f"  {state:<7} {layer['layer']}: {layer['why']}"
    yield from _reasons(output)
    for key, bound in output["bounds"].items():
        # The expression, the expression with numbers, and its value, each once.
        steps = dict.fromkeys((bound["text"], bound["substituted"], f"{bound['value']:.3g}"))
        yield f"  {key} = {' = '.join(steps)}"
    if output["meaning"]:
        yield "Accepted errors, by the size of the expected value"
    for row in output["meaning"]:
        size = "" if row["at"] == "zero" else f", {row['size']:.3g}"
        ulp = "" if row["ulp"] is None else f", {row['ulp']:.3g} units of its last place"
        yield f"  {_AT[row['at']]}{size}: at most {row['bound']:.3g}{ulp}"


def _reasons(output: ExplainedOutput) -> Iterator[str]:
    """Yield where the bounds come from, and the expected output of a program that others wrote."""
    own = output.get("element_bounds")
    yield f"Bounds of {output['layer']}" + (", each element's own" if own else "")
    yield from _wrapped(f"because {own['rationale'] if own else output['rationale']}")
    if own and own["median"] is not None:
        yield f"  the median of them is {own['median']:.3g}, the largest {own['largest']:.3g}"
    if "oracle" in output:
        yield "Expected"
        yield from _wrapped(output["oracle"])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=_WIDTH, initial_indent="  ", subsequent_indent="          ")


def _is_of_another_workload(layer: ExplainedLayer) -> bool:
    in_folder = not layer["layer"].partition(".yaml:")[0].endswith("golden/tolerances")
    return in_folder and not layer["applies"] and layer["why"].startswith("its workload is ")


def plan_magnitudes(
    catalog: Catalog,
    workload: Entry[Workload],
    environment: str = "numpy",
    *,
    pins: Pins | None = None,
    bounds: Mapping[str, Bounds] | None = None,
) -> tuple[Graph, str]:
    """Return the graph that measures a workload's goldens, and its action; its output is ``magnitudes``.

    For a program in a foreign form, give the ``pins`` that prepare it and the ``bounds`` of each dtype.
    """
    graph = Graph()
    params: NoParams | ProgramJudgeParams = {}
    if bounds is not None:
        prepared = add_prepared(graph, catalog, pins or Pins(catalog), workload)
        inputs: dict[str, Input] = {name: Produced(prepared, name) for name in (INTERFACE, EXPECTED)}
        params = {"outputs": [], "bounds": dict(bounds)}
    elif workload.document.golden == "computed":
        computed = add_expected(graph, catalog, workload, environment, stage=Stage.JUDGE)
        inputs = {Role.GOLDEN.of(name): made for name, made in computed.items()}
    else:
        inputs = {
            Role.GOLDEN.of(name): file_of(catalog, workload.root, workload.golden / f"{name}.npy", optional=True)
            for name in workload.document.outputs
        }
    return graph, _add_magnitudes(graph, workload, environment, inputs, params)


def plan_bound_sizes(
    catalog: Catalog, workload: Entry[Workload], derived: Collection[str], environment: str = "numpy"
) -> tuple[Graph, str]:
    """Return the graph that measures the bounds of elements, and its action; its output is ``magnitudes``.

    ``derived``: the outputs whose elements have bounds of their own.
    """
    graph = Graph()
    error = add_error_bounds(graph, catalog, workload, environment)
    inputs: dict[str, Input] = {Role.GOLDEN.of(name): Produced(error, Role.BOUND.of(name)) for name in derived}
    return graph, _add_magnitudes(graph, workload, environment, inputs, {})


def _add_magnitudes(
    graph: Graph,
    workload: Entry[Workload],
    environment: str,
    inputs: Mapping[str, Input],
    params: NoParams | ProgramJudgeParams,
) -> str:
    return graph.add(
        f"magnitudes/{label(workload)}",
        tool="magnitudes",
        stage=Stage.JUDGE,
        environment=environment,
        params=params,
        inputs=inputs,
        outputs={"magnitudes": "magnitudes.json"},
    )
