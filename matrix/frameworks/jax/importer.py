"""Import a JAX function as StableHLO: the lowering of ``jax.jit``, or of ``jax.export`` for dynamic sizes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import mlir

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, Tensor, under_test

DTYPES = {dtype: jnp.dtype(name) for dtype, name in api.FRAMEWORK_NAMES.items()}

#: JAX narrows these to 32 bits unless told otherwise, with no more than a warning.
WIDE = frozenset({"f64", "i64", "u64", "c128"})

#: Releases before end at a flag that they do not know.
_LIMITS_CPU = (0, 4, 36)


def run(action: Action) -> None:
    """Write ``main`` of the source's ``workload`` to the output ``out``."""
    inputs, outputs = action.params["inputs"], action.params["outputs"]
    # Lowering makes a CPU client, which makes a thread per core to run what is never run here.
    os.environ["NPROC"] = "1"
    if jax.__version_info__ >= _LIMITS_CPU:
        # What a source computes while it is traced becomes constants, which must not be this CPU's.
        os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=SSE4_2"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", any(tensor["dtype"] in WIDE for tensor in (*inputs, *outputs)))
    lower = _lower_dynamic if any(tensor["dynamic"] for tensor in inputs) else _lower_static
    source = api.load(action.inputs["source"])
    api.check_arguments(source, inputs)
    module, results = lower(source, inputs)
    api.check_outputs(outputs, [_describe(result) for result in results])
    Path(action.outputs["out"]).write_text(_text(module), encoding="utf-8")


def _lower_static(function: Callable[..., Any], inputs: Sequence[Tensor]) -> tuple[mlir.ir.Module, list[Any]]:
    arguments = [jax.ShapeDtypeStruct(tuple(tensor["shape"]), DTYPES[tensor["dtype"]]) for tensor in inputs]
    # The kernel's signature is the workload's: an input that the function ignores stays.
    with under_test(any_frame=True):
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    return lowered.compiler_ir("stablehlo"), jax.tree.leaves(lowered.out_info)


def _lower_dynamic(function: Callable[..., Any], inputs: Sequence[Tensor]) -> tuple[mlir.ir.Module, list[Any]]:
    export = importlib.import_module("jax.export")
    scope = export.SymbolicScope()
    # Axes that have the same size in the test share a symbol: JAX, unlike the other importers, does not find out by
    # itself which sizes must be equal.
    sizes = dict.fromkeys(tensor["shape"][axis] for tensor in inputs for axis in sorted(tensor["dynamic"]))
    symbols = {size: f"d{number}" for number, size in enumerate(sizes)}
    arguments = []
    for tensor in inputs:
        shape = ", ".join(
            symbols[size] if axis in tensor["dynamic"] else str(size) for axis, size in enumerate(tensor["shape"])
        )
        symbolic = export.symbolic_shape(shape, scope=scope)
        arguments.append(jax.ShapeDtypeStruct(symbolic, DTYPES[tensor["dtype"]]))
    with under_test(any_frame=True):
        exported = export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*arguments)
    with mlir.make_ir_context():
        return mlir.ir.Module.parse(exported.mlir_module()), list(exported.out_avals)


def _describe(result: Any) -> tuple[api.Shape, str]:
    shape = tuple(size if isinstance(size, int) else None for size in result.shape)
    return shape, api.name_of(DTYPES, result.dtype)


def _text(module: mlir.ir.Module) -> str:
    """Return the module as text, without its name and without hints to XLA."""
    with module.context:
        _strip(module.operation, keep=())
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                _strip(operation.operation, keep=("sym_name", "sym_visibility", "function_type"))
        return f"{module.operation.get_asm(enable_debug_info=False).rstrip()}\n"


def _strip(operation: mlir.ir.Operation, *, keep: Sequence[str]) -> None:
    # Up to JAX 0.5 these are attributes with a name, later on names.
    for name in {getattr(each, "name", each) for each in operation.attributes} - set(keep):
        del operation.attributes[name]
