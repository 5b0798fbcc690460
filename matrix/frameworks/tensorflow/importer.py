"""Import a TensorFlow function as StableHLO, by ``tf.function(jit_compile=True)``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tensorflow

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, under_test

DTYPES = {dtype: tensorflow.as_dtype(name) for dtype, name in api.FRAMEWORK_NAMES.items()}

#: Locations, which name folders of this machine, and the number of the function.
NOISE = re.compile(r' loc\((?:[^()"]|"[^"]*"|\([^()]*\))*\)|^#loc.*\n|(?<=^module) @\S+', re.MULTILINE)


def run(action: Action) -> None:
    """Write ``main`` of the source's ``workload`` to the output ``out``."""
    tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    source, inputs = api.load(action.inputs["source"]), action.params["inputs"]
    api.check_arguments(source, inputs)
    if any(tensor["dynamic"] for tensor in inputs):
        raise ActionFailed("StableHLO from TensorFlow has static shapes only")
    specs = [tensorflow.TensorSpec(tensor["shape"], DTYPES[tensor["dtype"]]) for tensor in inputs]
    with under_test(any_frame=True):
        function = tensorflow.function(source, jit_compile=True, autograph=False)
        results = tensorflow.nest.flatten(function.get_concrete_function(*specs).structured_outputs)
        text = function.experimental_get_compiler_ir(*specs)(stage="stablehlo")
    api.check_outputs(action.params["outputs"], [_describe(result) for result in results])
    text = text if isinstance(text, str) else text.decode()
    Path(action.outputs["out"]).write_text(NOISE.sub("", text).strip() + "\n", encoding="utf-8")


def _describe(result: Any) -> tuple[api.Shape, str]:
    return tuple(result.shape.as_list()), api.name_of(DTYPES, result.dtype)
