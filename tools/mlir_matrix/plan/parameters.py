"""Make the parameters of actions from a workload: its files, the sizes of its tensors, its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from mlir_matrix.actions import params
from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import (
    Bounds,
    ImportParams,
    InputsParams,
    InputTensor,
    JudgedOutput,
    SameIrParams,
    StepParams,
    ToolParams,
    Value,
)
from mlir_matrix.base.names import MEMBER
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.golden_files import is_sketched
from mlir_matrix.catalog.models.base import FLOATS, TOOL_FILES, Output, ParameterValue, TensorInput, Tool, Workload
from mlir_matrix.expand.recipes import ResolvedStep, Tooled
from mlir_matrix.expand.tolerances import Resolved
from mlir_matrix.plan.graph import File, Graph, Input, Produced

#: The output of actions that judge.
VERDICT = {"verdict": "verdict.json"}


def file_of(catalog: Catalog, root: Path, path: Path, *, optional: bool = False) -> File:
    """Return a catalog's file as plans name it: by the number of the catalog."""
    return File(catalog.roots.index(root), path.relative_to(root).as_posix(), optional)


def sizes(shape: Iterable[int | str], dims: Mapping[str, int]) -> list[int]:
    """Return a shape with its named dimensions replaced by their sizes."""
    return [size if isinstance(size, int) else dims[size] for size in shape]


def json_value(value: ParameterValue) -> Value:
    """Return a parameter's value in JSON, as actions get it."""
    return list(value) if isinstance(value, tuple) else value


def choose_backend(params: StepParams | ImportParams | SameIrParams, resolved_step: ResolvedStep) -> None:
    """Add the backend of a tool, if it has two, and the package of bindings, if the environment names one, to ``params``."""
    if resolved_step.backend:
        params["backend"] = resolved_step.backend
    if resolved_step.bindings:
        params["bindings"] = resolved_step.bindings


def tool_params(resolved_step: ResolvedStep, tool: Tool, values: Mapping[str, ParameterValue], kind: str) -> ToolParams:
    """Return the parameters of a catalog's tool: how to run it, and the values of the parameters that it declares."""
    params: ToolParams = {"kind": kind} if kind else {}
    choose_backend(params, resolved_step)
    if resolved_step.command:
        params["command"] = list(resolved_step.command)
    if resolved_step.programs:
        params["programs"] = list(resolved_step.programs)
    if tool.preload:
        params["preload"] = list(tool.preload)
    if values:
        params["parameters"] = {name: json_value(value) for name, value in values.items()}
    return params


def tool_files(catalog: Catalog, entry: Tooled, params: ToolParams) -> dict[str, Input]:
    """Return the files of a catalog's tool as inputs. Add the path of its Python file to ``params``."""
    files: dict[str, Input] = {}
    if "command" not in params:
        files["tool"] = file = file_of(catalog, entry.root, entry.folder / TOOL_FILES[type(entry.document)])
        params["tool"] = file.path
    for name in entry.document.files:
        found = catalog.tool_file(entry, name)
        assert found is not None, name
        files[name.rpartition("/")[2]] = file_of(catalog, *found)
    return files


def label(workload: Entry[Workload]) -> str:
    """Return a workload's name for the identifiers of actions, which are labels of Bazel."""
    return workload.name.replace(MEMBER, ".")


#: The distance between the seeds of two draws of an input; a prime, so that inputs with neighbouring seeds differ.
_DRAW = 1_000_003


def seed_of_draw(seed: int, draw: int) -> int:
    """Return the seed of an input in a draw. Draw 0 has the seed itself."""
    return seed + draw * _DRAW


def inputs_params(workload: Workload, draw: int = 0) -> InputsParams:
    """Return the parameters of the action that makes a workload's inputs. Draw 0 has the workload's own seeds."""
    made: list[InputTensor] = [
        {
            "name": name,
            "shape": sizes(tensor.shape, workload.dims),
            "dtype": tensor.dtype,
            "formula": tensor.formula,
            "seed": seed_of_draw(tensor.seed, draw),
        }
        for name, tensor in workload.inputs.items()
    ]
    return {"inputs": made, "dims": dict(workload.dims)}


def add_inputs(
    graph: Graph, workload: Entry[Workload], environment: str = "numpy", *, draw: int = 0
) -> dict[str, Produced]:
    """Add the action that makes a workload's inputs; return them by name."""
    action = graph.add(
        f"inputs/{workload.name}",
        tool="inputs",
        stage=Stage.IMPORT,
        environment=environment,
        params=inputs_params(workload.document, draw),
        inputs={},
        outputs={name: f"{name}.npy" for name in workload.document.inputs},
    )
    return {name: Produced(action, name) for name in workload.document.inputs}


def like_outputs(graph: Graph, workload: Entry[Workload], environment: str) -> dict[str, Produced]:
    """Return, as ``arg-NAME``, the inputs with the shape and dtype of an output: if one passes for a golden, that is weak.

    Leave out outputs that are stored as sketches.
    """
    document = workload.document

    def form(tensor: TensorInput | Output) -> tuple[str, list[int]]:
        return tensor.dtype, sizes(tensor.shape, document.dims)

    outputs = [form(output) for output in document.outputs.values() if not is_sketched(document, output)]
    names = [name for name, tensor in document.inputs.items() if form(tensor) in outputs]
    made = add_inputs(graph, workload, environment) if names else {}
    return {Role.ARGUMENT.of(name): made[name] for name in names}


def signature(workload: Workload) -> ImportParams:
    """Return a workload's inputs and outputs for importers, with the positions of dynamic dimensions."""

    def declared(name: str, tensor: TensorInput | Output) -> params.Tensor:
        found: params.Tensor = {
            "name": name,
            "shape": sizes(tensor.shape, workload.dims),
            "dtype": tensor.dtype,
            "dynamic": [axis for axis, size in enumerate(tensor.shape) if size in workload.dynamic],
        }
        return {**found, "nan": True} if getattr(tensor, "nan", None) else found

    return {
        "inputs": [declared(*each) for each in workload.inputs.items()],
        "outputs": [declared(*each) for each in workload.outputs.items()],
        "dims": dict(workload.dims),
        "dim_names": {name: [str(size) for size in tensor.shape] for name, tensor in workload.inputs.items()},
    }


#: A position in a file of a catalog other than this repository, as plans name it: by the catalog's number.
_PLACE = re.compile(r"<(\d+)>/(?=golden/)")


def place_of(catalog: Catalog, position: str) -> str:
    """Return a position in a catalog's file as plans name it: without the folder of the catalog."""
    for number, root in enumerate(catalog.roots[1:], 1):
        if position.startswith(f"{root}/"):
            return f"<{number}>/{position.removeprefix(f'{root}/')}"
    return position


def found_place(roots: Sequence[Path], text: str) -> str:
    """Return a text with the folders of catalogs in its positions."""
    return _PLACE.sub(lambda match: f"{roots[int(match[1])]}/" if int(match[1]) < len(roots) else match[0], text)


def judged(catalog: Catalog, workload: Workload, resolved: Iterable[Resolved]) -> list[JudgedOutput]:
    """Return the specifications of outputs for a judge."""
    found: list[JudgedOutput] = []
    for (name, output), bound in zip(workload.outputs.items(), resolved, strict=True):
        shape = sizes(output.shape, workload.dims)
        spec = cast(
            "JudgedOutput",
            {
                "name": name,
                "dtype": output.dtype,
                "shape": shape,
                "compare": output.compare,
                **bounds_of(catalog, bound),
            },
        )
        if output.dtype not in FLOATS:
            spec.pop("derived", None)
        if output.weak is not None:
            spec["weak_reason"] = output.weak
        found.append(spec)
    return found


def bounds_of(catalog: Catalog, bound: Resolved) -> Bounds:
    """Return the bounds of an output for a judge."""
    found: Bounds = {
        "atol": bound.atol,
        "rtol": bound.rtol,
        "atol_text": bound.atol_text,
        "rtol_text": bound.rtol_text,
        "layer": place_of(catalog, bound.location),
        "rationale": bound.rationale,
    }
    # Absent if no layer has it, so that the keys of such actions do not change.
    if bound.max_ulp is not None:
        found["max_ulp"], found["max_ulp_text"] = bound.max_ulp, bound.max_ulp_text
    if bound.derived:
        found["derived"] = True
    return found
