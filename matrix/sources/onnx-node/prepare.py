"""Prepare a node test of ONNX: its model, and the inputs and outputs that the test has.

The bound of an output is the test's own, ``atol + rtol |expected|``; of bf16 it is at least two units in the last place, as in
ONNX's runner. Integers and booleans must be equal. Draw *n* is data set *n*; each test of ONNX 1.23 has one.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, numpy_helper, printer
from onnx.backend.test.case.node import collect_testcases

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, Expected

#: Our names of ONNX's dtypes.
DTYPES = {onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(name)): dtype for dtype, name in api.FRAMEWORK_NAMES.items()}
FLOATS = {"f64", "f32", "f16", "bf16", "c64", "c128"}
#: How an input or output is declared, and its elements.
Declared = tuple[dict[str, Any], numpy.ndarray[Any, Any]]
#: The least relative bound of bf16 in ONNX's runner: two units in the last place.
BF16_RTOL = 2.0**-6
#: Operators of which every run may give something else; Dropout does only in training.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

PROGRAM = '''"""{name} of ONNX {version}."""

{text}
from base64 import b64decode

from onnx import ModelProto

MODEL = """
{model}
"""


def workload(dims):
    return ModelProto.FromString(b64decode(MODEL))
'''


def members(action: Action) -> None:
    """Write the names of all tests, one a line."""
    names = sorted(case.name for case in collect_testcases())
    Path(action.outputs["members"]).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    name, draw = str(action.params["member"]), int(action.params["draw"])
    case = next((case for case in collect_testcases() if case.name == name), None)
    if case is None:
        raise ActionFailed(f"ONNX {onnx.__version__} has no node test {name}")
    if draw >= len(case.data_sets):
        raise ActionFailed(f"the test has {len(case.data_sets)} data set(s), no number {draw}")
    graph, (inputs, outputs) = case.model.graph, case.data_sets[draw]
    _check_repeats(case.model, inputs)
    given = [_tensor("an input", *each) for each in zip(graph.input, inputs, strict=True)]
    wanted = [_tensor("an output", *each) for each in zip(graph.output, outputs, strict=True)]
    for each, array in wanted:
        if not array.size:
            raise ActionFailed("an output has no elements, so nothing can be compared", diagnostics=each["name"])
    arguments = [(each, _save(f"argument-{at}.npy", _stored(array))) for at, (each, array) in enumerate(given)]
    expected = [_expected(at, *each, case.rtol, case.atol) for at, each in enumerate(wanted)]
    api.write_prepared(action, _program(name, case.model), arguments, expected)


def _expected(at: int, declared: dict[str, Any], array: numpy.ndarray[Any, Any], rtol: float, atol: float) -> Expected:
    """Write an output of the test, and its bounds."""
    if declared["dtype"] not in FLOATS:
        return Expected(declared=declared, file=_save(f"expected-{at}.npy", array))
    own = max(rtol, BF16_RTOL) if declared["dtype"] == "bf16" else rtol
    exact = array.astype(numpy.complex128 if numpy.iscomplexobj(array) else numpy.float64)
    return Expected(
        declared=declared,
        file=_save(f"expected-{at}.npy", exact),
        bound=_save(f"bound-{at}.npy", atol + own * numpy.abs(exact)),
        rationale=f"given by the test: rtol {own:g}, atol {atol:g}",
    )


def _check_repeats(model: ModelProto, inputs: Sequence[Any]) -> None:
    """Raise ActionFailed if the model gives random numbers, which no reference can have."""
    for node in _nodes(model.graph):
        if node.op_type in RANDOM:
            raise ActionFailed(f"{node.op_type} gives random numbers, so the test's outputs are no reference")
        if node.op_type == "Dropout" and len(inputs) == 3 and inputs[1] and inputs[2]:
            raise ActionFailed("Dropout in training mode drops at random, so the test's outputs are no reference")


def _nodes(graph: GraphProto) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def _tensor(what: str, declared: ValueInfoProto, value: Any) -> Declared:
    """Return an input or output. Raise ActionFailed for what kernels do not take."""
    array: numpy.ndarray[Any, Any]
    kind = declared.type.WhichOneof("value")
    if kind != "tensor_type":
        reason = f"{what} is of {kind.replace('_', ' ')}; kernels take and give tensors"
        raise ActionFailed(reason, diagnostics=declared.name)
    tensor = declared.type.tensor_type
    if tensor.elem_type not in DTYPES:
        dtype = TensorProto.DataType.Name(tensor.elem_type)
        raise ActionFailed(f"{what} has ONNX's type {dtype}, which is no dtype here", diagnostics=declared.name)
    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else numpy.asarray(value)
    opened = [axis for axis, size in enumerate(tensor.shape.dim) if not size.HasField("dim_value")]
    shape = [None if what == "an output" and axis in opened else size for axis, size in enumerate(array.shape)]
    dtype = DTYPES[tensor.elem_type]
    return {"name": declared.name, "shape": shape, "dtype": dtype, "dynamic": opened}, array


def _program(name: str, model: ModelProto) -> str:
    """Return a program with the model as text, for people, and as it is."""
    lines = printer.to_text(model).splitlines()
    encoded = base64.b64encode(model.SerializeToString(deterministic=True)).decode()
    text = "".join(f"# {line}\n" for line in lines)
    return PROGRAM.format(name=name, version=onnx.__version__, text=text, model="\n".join(textwrap.wrap(encoded, 100)))


def _stored(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    return array.view(numpy.uint16) if array.dtype.name == "bfloat16" else array


def _save(path: str, array: numpy.ndarray[Any, Any]) -> str:
    # Not ascontiguousarray, which makes a vector of a scalar.
    numpy.save(path, numpy.asarray(array, order="C"))
    return path
