"""Import a PyTorch function: ``torch.export``, then, for the torch dialect, torch-mlir's FX importer."""

from __future__ import annotations

import random
import re
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.export import Dim, ExportedProgram
from torch_mlir import fx
from torch_mlir.compiler_utils import OutputType
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import FxImporter

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, Tensor, under_test

DTYPES = {dtype: getattr(torch, name) for dtype, name in api.FRAMEWORK_NAMES.items()}

#: What ``torch_mlir.fx`` runs for its output type TORCH. Here, because its wrapper writes a reproducer to a
#: temporary file and names it in the error, which then differs from run to run.
TO_BACKEND = "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline{extra-library=}"

#: A line of this file in what torch knows of an operator, and its text.
_OWN_LINE = re.compile(rf'^ *File "{re.escape(__file__)}", .*\n(?: {{4}}.*\n?)?', re.MULTILINE)


class Program(torch.nn.Module):  # type: ignore[misc]
    """What ``torch.export`` takes, around a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = _called_forward(function)

    def forward(self, *args: torch.Tensor) -> Any:
        return self._function(*args)


def _called_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose lines torch knows of each operator: it keeps those of functions of this name alone."""
    if isinstance(function, types.FunctionType):
        function.__code__ = function.__code__.replace(co_name="forward")
    return function


def run(action: Action) -> None:
    """Write ``main`` of the source's ``workload`` to the output ``out``."""
    torch.set_num_threads(1)
    # What a file draws when it is loaded is the same each time.
    # Not torch.manual_seed, which formats the stack for each kind of device: 15 ms.
    for seed in (random.seed, numpy.random.seed, torch.default_generator.manual_seed):
        seed(0)
    source, inputs = api.load(action.inputs["source"]), action.params["inputs"]
    api.check_arguments(source, inputs)
    exported = _export(source, inputs)
    # In the operators that torch-mlir takes, without mutation.
    with under_test():
        program = exported.run_decompositions(get_decomposition_table())
    if program.graph_signature.user_inputs_to_mutate:
        raise ActionFailed("workload writes to its inputs")
    api.check_outputs(action.params["outputs"], _results(program))
    if action.params["kind"] == "torch-export":
        _save(exported, action.outputs["out"])
    else:
        Path(action.outputs["out"]).write_text(_to_mlir(program), encoding="utf-8")


def _export(function: Callable[..., Any], inputs: Sequence[Tensor]) -> ExportedProgram:
    examples = tuple(torch.zeros(_example_shape(tensor), dtype=DTYPES[tensor["dtype"]]) for tensor in inputs)
    # DYNAMIC, not AUTO: a program that needs a certain size is an error, not silently a static one.
    dynamic = tuple(dict.fromkeys(sorted(tensor["dynamic"]), Dim.DYNAMIC) or None for tensor in inputs)
    with under_test():
        # A program without inputs has no ``*args`` that shapes could be given for.
        exported = torch.export.export(
            Program(function),
            examples,
            dynamic_shapes=(dynamic,) if dynamic else None,
            # By Dynamo, where a source demands that by ``workload.strict = True``.
            strict=getattr(function, "strict", False),
        )
    _forget_own_lines(exported)
    return exported


def _forget_own_lines(program: ExportedProgram) -> None:
    """Remove what is called in this file from the lines that operators come from."""
    modules = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    for module in modules:
        for node in module.graph.nodes:
            if node.stack_trace:
                node.stack_trace = _OWN_LINE.sub("", node.stack_trace)


def _save(program: ExportedProgram, path: str) -> None:
    """Write a program by ``torch.export.save``, without what differs from run to run: folders and addresses."""
    for node in program.graph.nodes:
        for name in ("stack_trace", "from_node"):
            node.meta.pop(name, None)
    torch.export.save(program, path)


def _example_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return sizes to trace with: ``torch.export`` takes sizes 0 and 1 of an example for constants."""
    return tuple(max(size, 2) if axis in tensor["dynamic"] else size for axis, size in enumerate(tensor["shape"]))


def _results(program: ExportedProgram) -> list[tuple[api.Shape | None, str]]:
    (output,) = program.graph.find_nodes(op="output")
    return [_describe(result) for result in output.args[0]]


def _describe(result: Any) -> tuple[api.Shape | None, str]:
    value = result.meta.get("val") if isinstance(result, torch.fx.Node) else result
    if not isinstance(value, torch.Tensor):
        return None, f"{type(value).__name__}, not a tensor"
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    return shape, api.name_of(DTYPES, value.dtype)


def _to_mlir(program: ExportedProgram) -> str:
    with api.bindings.load("torch_mlir").session() as session:
        with under_test():
            try:
                module = fx.export_and_import(
                    program,
                    output_type=OutputType.RAW,
                    fx_importer=FxImporter(context=session.context),
                    decomposition_table={},
                    func_name="main",
                )
            except KeyError as error:
                if error.args and isinstance(error.args[0], torch.dtype):
                    raise ActionFailed(f"torch-mlir's importer has no type for {error.args[0]}") from error
                raise
            except NotImplementedError as error:
                # After the operator follows all that torch knows of the node, with addresses and folders.
                raise ActionFailed(str(error).partition(", {")[0]) from error
        session.run(module, TO_BACKEND)
        return session.text(module)
