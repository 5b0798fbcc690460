"""Run an executable by XLA's runtime."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import jax
import ml_dtypes
import numpy
from jaxlib import lapack, xla_client

from mlir_matrix.actions.api import Action, timed, under_test


def run(action: Action) -> None:
    """Call the executable with the inputs in order, write its results."""
    os.environ["NPROC"] = "1"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    # In this thread: the switch to another one takes longer than many programs.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    (device,) = jax.devices("cpu")
    # Up to jaxlib 0.5 an executable is loaded for all devices.
    devices = [xla_client.DeviceList((device,))] if hasattr(device.client, "compile_and_load") else []
    with under_test():
        code = Path(action.inputs["artifact"]).read_bytes()
        if b"lapack_" in code:
            # XLA finds these functions in SciPy. JAX sees to that when it lowers, which it did in another process.
            lapack.prepare_lapack_call("geqrf", numpy.float32)
        if b"_sparse_dense_ffi" in code:
            # As JAX's module for sparse matrices.
            for name, function, version in import_module("jaxlib.cpu_sparse").registrations()["cpu"]:
                xla_client.register_custom_call_target(name, function, platform="cpu", api_version=version)
        executable = device.client.deserialize_executable(code, *devices, xla_client.CompileOptions())
    arguments = []
    for each in action.params["arguments"]:
        array = numpy.load(action.inputs[f"arg-{each['name']}"])
        arguments.append(jax.device_put(array.view(ml_dtypes.bfloat16) if each["dtype"] == "bf16" else array, device))
    with under_test():
        # A call returns before its results are there.
        returned = timed(action, lambda: [value.block_until_ready() for value in executable.execute(arguments)])
        values = [numpy.asarray(value) for value in returned]
    for each, value in zip(action.params["results"], values, strict=True):
        numpy.save(
            action.outputs[f"out-{each['name']}"], value.view(numpy.uint16) if each["dtype"] == "bf16" else value
        )
