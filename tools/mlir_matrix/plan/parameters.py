"""Make the parameters of actions from a workload: its files, the sizes of its tensors, its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mlir_matrix.actions import params
from mlir_matrix.actions.params import (
    ImportParams,
    InputsParams,
    InputTensor,
    JudgedOutput,
    SameIrParams,
    StepParams,
    Value,
)
from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import is_sketched
from mlir_matrix.catalog.models.base import Output, ParameterValue, Tensor, Workload
from mlir_matrix.expand.recipes import ResolvedStep
from mlir_matrix.plan.graph import File, Graph, Produced
from mlir_matrix.tolerances.resolve import Resolved

#: What an action gives that compares outputs.
VERDICT = {"verdict": "verdict.json"}


def file_of(catalog: Catalog, root: Path, path: Path, *, optional: bool = False) -> File:
    """A catalog's file as plans name it: without the folder that the catalog happens to be in."""
    return File(catalog.roots.index(root), path.relative_to(root).as_posix(), optional)


def sizes(shape: Iterable[int | str], dims: Mapping[str, int]) -> list[int]:
    """A shape with its named dimensions replaced by their sizes."""
    return [size if isinstance(size, int) else dims[size] for size in shape]


def json_value(value: ParameterValue) -> Value:
    """A parameter's value as actions are given it, in JSON."""
    return list(value) if isinstance(value, tuple) else value


def choose_backend(params: StepParams | ImportParams | SameIrParams, resolved_step: ResolvedStep) -> None:
    """Write the backend of a tool, where it has two, and the package of bindings, where the environment names one."""
    if resolved_step.backend:
        params["backend"] = resolved_step.backend
    if resolved_step.bindings:
        params["bindings"] = resolved_step.bindings


#: How far apart the seeds of two draws of an input are; a prime, so that inputs with neighbouring seeds do not meet.
_DRAW = 1_000_003


def inputs_params(workload: Workload, draw: int = 0) -> InputsParams:
    """Parameters of the action that makes a workload's inputs. Draw 0 has its own seeds, each other draw others."""
    made: list[InputTensor] = [
        {
            "name": name,
            "shape": sizes(tensor.shape, workload.dims),
            "dtype": tensor.dtype,
            "formula": tensor.formula,
            "seed": tensor.seed + draw * _DRAW,
        }
        for name, tensor in workload.inputs.items()
    ]
    return {"inputs": made, "dims": dict(workload.dims)}


def add_inputs(graph: Graph, workload: Entry[Workload], environment: str = "numpy", *, draw: int = 0) -> str:
    """Add the action that makes a workload's inputs; its outputs have the inputs' names."""
    return graph.add(
        f"inputs/{workload.name}",
        tool="inputs",
        stage=Stage.IMPORT,
        environment=environment,
        params=inputs_params(workload.document, draw),
        inputs={},
        outputs={name: f"{name}.npy" for name in workload.document.inputs},
    )


def like_outputs(graph: Graph, workload: Entry[Workload], environment: str) -> dict[str, Produced]:
    """Return the inputs that are like an output, ``arg-NAME``: a golden that such a one passes for tells nothing.

    An output that is kept as a sketch is compared with none.
    """
    document = workload.document

    def described(tensor: Tensor | Output) -> tuple[str, list[int]]:
        return tensor.dtype, sizes(tensor.shape, document.dims)

    outputs = [described(output) for output in document.outputs.values() if not is_sketched(document, output)]
    names = [name for name, tensor in document.inputs.items() if described(tensor) in outputs]
    made = add_inputs(graph, workload, environment) if names else ""
    return {f"arg-{name}": Produced(made, name) for name in names}


def signature(workload: Workload) -> ImportParams:
    """What an ingress must know of a workload: inputs and outputs, with the positions of dimensions left open."""

    def described(name: str, tensor: Tensor | Output) -> params.Tensor:
        found: params.Tensor = {
            "name": name,
            "shape": sizes(tensor.shape, workload.dims),
            "dtype": tensor.dtype,
            "dynamic": [axis for axis, size in enumerate(tensor.shape) if size in workload.dynamic],
        }
        # Left out where it is not so.
        return {**found, "nan": True} if getattr(tensor, "nan", None) else found

    return {
        "inputs": [described(*each) for each in workload.inputs.items()],
        "outputs": [described(*each) for each in workload.outputs.items()],
        "dims": dict(workload.dims),
        "dim_names": {name: [str(size) for size in tensor.shape] for name, tensor in workload.inputs.items()},
    }


#: A position in a file of a catalog other than this repository, as plans name it: by the catalog's number.
_PLACE = re.compile(r"<(\d+)>/(?=golden/)")


def place_of(catalog: Catalog, position: str) -> str:
    """A position in a catalog's file as plans name it: without the folder that the catalog happens to be in."""
    for number, root in enumerate(catalog.roots[1:], 1):
        if position.startswith(f"{root}/"):
            return f"<{number}>/{position.removeprefix(f'{root}/')}"
    return position


def found_place(roots: Sequence[Path], text: str) -> str:
    """A text in which such positions are where a person finds them."""
    return _PLACE.sub(lambda match: f"{roots[int(match[1])]}/" if int(match[1]) < len(roots) else match[0], text)


def judged(catalog: Catalog, workload: Workload, bounds: Iterable[Resolved]) -> list[JudgedOutput]:
    """Return what the judge needs of each output."""
    return [_judged(catalog, workload, *each) for each in zip(workload.outputs, bounds, strict=True)]


def _judged(catalog: Catalog, workload: Workload, name: str, bound: Resolved) -> JudgedOutput:
    output = workload.outputs[name]
    spec: JudgedOutput = {
        "name": name,
        "dtype": output.dtype,
        "shape": sizes(output.shape, workload.dims),
        "compare": output.compare,
        "atol": bound.atol,
        "rtol": bound.rtol,
        "atol_text": bound.atol_text,
        "rtol_text": bound.rtol_text,
        "layer": place_of(catalog, bound.location),
        "rationale": bound.rationale,
    }
    # Left out where no layer gives it, so that the keys of such actions stay what they were.
    if bound.max_ulp is not None:
        spec["max_ulp"], spec["max_ulp_text"] = bound.max_ulp, bound.max_ulp_text
    if output.weak is not None:
        spec["weak_reason"] = output.weak
    return spec
