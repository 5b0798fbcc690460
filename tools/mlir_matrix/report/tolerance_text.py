"""Why the bounds of a test are what they are: facts, layers, the winner's numbers, and what they come to."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from mlir_matrix.catalog.models.base import Output, Workload
from mlir_matrix.plan.parameters import sizes
from mlir_matrix.tolerances.bounds import EPS, substituted
from mlir_matrix.tolerances.numerics import NumericsAttribute, shown
from mlir_matrix.tolerances.resolve import BOUNDS, Resolved

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.golden import (
        ExplainedBound,
        ExplainedOutput,
        ExplainedSize,
        ExplainedVerdict,
        GoldenExplanation,
    )
    from mlir_matrix.report.schemas.verdict import Census, Verdict

_WIDTH = 110
#: Sizes of expected values at which bounds are shown, and what they are called.
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
    magnitudes: Mapping[str, Mapping[str, float]],
    last: Verdict | None,
) -> GoldenExplanation:
    """The document of ``--format json``. ``magnitudes`` and the ``last`` verdict are what is known of goldens and runs."""
    verdicts = {output["name"]: output for output in last["outputs"]} if last else {}
    return {
        "schema": "mlir-matrix/golden-explanation/v1",
        "id": identifier,
        "facts": [
            {
                "name": attribute.name,
                "value": attribute.value,
                "by": attribute.by,
                "position": attribute.position,
                "counts": attribute.counts,
            }
            for attribute in attributes
        ],
        "outputs": [
            _output(workload, name, output, bounds[name], magnitudes.get(name, {}), verdicts.get(name))
            for name, output in workload.outputs.items()
        ],
    }


def _output(
    workload: Workload,
    name: str,
    output: Output,
    bound: Resolved,
    magnitudes: Mapping[str, float],
    verdict: Census | None,
) -> ExplainedOutput:
    exact = output.compare == "exact"
    return {
        "name": name,
        "dtype": output.dtype,
        "shape": sizes(output.shape, workload.dims),
        "compare": output.compare,
        "layers": [{"layer": one.location, "applies": one.applies, "why": one.why} for one in bound.considered],
        "layer": bound.location,
        "rationale": " ".join(bound.rationale.split()),
        "bounds": {key: _bound(bound, key, workload.dims, output.dtype) for key in BOUNDS if _given(bound, key)},
        "meaning": [] if exact else list(_meaning(bound, output.dtype, magnitudes)),
        "last": _last(verdict) if verdict else None,
    }


def _given(bound: Resolved, key: str) -> bool:
    return getattr(bound, key) is not None


def _bound(bound: Resolved, key: str, dims: Mapping[str, int], dtype: str) -> ExplainedBound:
    written = getattr(bound.layer.document, key)
    return {"text": str(written), "substituted": substituted(written, dims, dtype), "value": getattr(bound, key)}


def _meaning(bound: Resolved, dtype: str, magnitudes: Mapping[str, float]) -> Iterator[ExplainedSize]:
    """The largest error that is right, for expected values of some sizes."""
    known = {"zero": 0.0, **magnitudes}
    for name in _AT:
        if name in known:
            size = known[name]
            error = bound.atol + bound.rtol * size
            yield {"at": name, "size": size, "bound": error, "ulp": _in_last_places(error, size, dtype)}


def _in_last_places(error: float, size: float, dtype: str) -> float | None:
    """An error in units of the last place of a number of this size; None near 0, where these say nothing."""
    eps = EPS.get(dtype)
    if not eps or not size:
        return None
    return error / (eps * 2.0 ** math.floor(math.log2(size)))


def _last(verdict: Census) -> ExplainedVerdict:
    return {
        "outcome": verdict["outcome"],
        "reason": verdict["reason"],
        "error_used": verdict.get("error_used"),
        "max_abs": verdict.get("max_abs"),
    }


def to_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield document["id"]
    yield ""
    yield "Facts" if document["facts"] else "Facts: nothing states any"
    yield from (f"  {line}" for line in _facts(document["facts"]))
    for output in document["outputs"]:
        yield ""
        yield f"{output['name']}: {output['dtype']} {output['shape']}, compared: {output['compare']}"
        yield from (f"  {line}" for line in _output_lines(output))


def _facts(attributes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for attribute in attributes:
        heard = "" if attribute["counts"] else ", but a more specific word counts"
        yield f"{attribute['name']} = {shown(attribute['value'])}, by {attribute['by']} ({attribute['position']}){heard}"


def _output_lines(output: Mapping[str, Any]) -> Iterator[str]:
    if output["compare"] == "exact":
        yield "must be equal; no layer's bounds count"
    yield "Layers, from general to specific"
    others = [layer for layer in output["layers"] if _is_anothers(layer)]
    if others:
        yield f"  –       {len(others)} in the folders of other workloads"
    for layer in output["layers"]:
        if layer in others:
            continue
        wins = layer["layer"] == output["layer"] and layer["applies"]
        yield f"  {'wins   ' if wins else 'applies' if layer['applies'] else '–      '} {layer['layer']}: {layer['why']}"
    yield f"Bounds of {output['layer']}"
    yield from textwrap.wrap(
        f"because {output['rationale']}", width=_WIDTH, initial_indent="  ", subsequent_indent="          "
    )
    for key, bound in output["bounds"].items():
        yield f"  {key} = {_steps(bound)}"
    if output["meaning"]:
        yield "Right is, for an expected value of size"
        yield from (f"  {_meant(row)}" for row in output["meaning"])
    yield _last_line(output["last"])


def _is_anothers(layer: Mapping[str, Any]) -> bool:
    """Whether a layer is in the folder of another workload: one for each of them, and all alike."""
    in_folder = not layer["layer"].partition(".yaml:")[0].endswith("golden/tolerances")
    return in_folder and not layer["applies"] and layer["why"].startswith("its workload is ")


def _steps(bound: Mapping[str, Any]) -> str:
    """An expression, what it is with numbers in it, and its value, each once."""
    steps = dict.fromkeys((bound["text"], bound["substituted"], f"{bound['value']:.3g}"))
    return " = ".join(steps)


def _meant(row: Mapping[str, Any]) -> str:
    size = "" if row["at"] == "zero" else f", {row['size']:.3g}"
    ulp = "" if row["ulp"] is None else f", {row['ulp']:.3g} units of its last place"
    return f"{_AT[row['at']]}{size}: an error of at most {row['bound']:.3g}{ulp}"


def _last_line(last: Mapping[str, Any] | None) -> str:
    if last is None:
        return "Of its last run nothing is known; matrix run makes a verdict"
    if last["error_used"] is None:
        return f"Last verdict: {last['outcome']}, {last['reason']}"
    return (
        f"Last verdict: {last['outcome']}; the worst error takes {100 * float(last['error_used']):.3g} % of its bound"
    )
