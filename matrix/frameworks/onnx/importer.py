"""Import an ONNX model: as it is, or into the torch dialect with ONNX's operators by torch-mlir's importer without torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.checker
import onnx.parser
import onnx.shape_inference
import onnx.version_converter
from onnx import ModelProto, TensorProto, ValueInfoProto
from torch_mlir.dialects.torch import register_dialect
from torch_mlir.extras import onnx_importer
from torch_mlir.ir import Context, MLIRError

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, Tensor, under_test

DTYPES = {
    "f64": TensorProto.DOUBLE,
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "i16": TensorProto.INT16,
    "i8": TensorProto.INT8,
    "u64": TensorProto.UINT64,
    "u32": TensorProto.UINT32,
    "u16": TensorProto.UINT16,
    "u8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "c64": TensorProto.COMPLEX64,
    "c128": TensorProto.COMPLEX128,
}

#: torch-mlir's conversions know the operators best as they were in this version; for it, older models are brought up to it.
OPSET = 21


def run(action: Action) -> None:
    """Call the source's ``workload(dims)`` and write the model, or its graph as ``main``, to ``out``."""
    source, dims = api.load(action.inputs["source"]), dict(action.params["dims"])
    with under_test(any_frame=True):
        model = source(dims)
    if not isinstance(model, ModelProto):
        raise ActionFailed(f"workload returned {type(model).__name__}, not an onnx.ModelProto")
    model = _complete(model, converted=action.params["kind"] != "onnx")
    inputs, outputs = action.params["inputs"], action.params["outputs"]
    arguments = _arguments(model)
    _check_inputs(inputs, arguments)
    api.check_names("inputs", [each["name"] for each in inputs], [each.name for each in arguments])
    api.check_outputs(outputs, [_describe(result) for result in model.graph.output])
    api.check_names("outputs", [each["name"] for each in outputs], [each.name for each in model.graph.output])
    if action.params["kind"] == "onnx":
        Path(action.outputs["out"]).write_bytes(model.SerializeToString(deterministic=True))
    else:
        Path(action.outputs["out"]).write_text(_to_mlir(model), encoding="utf-8")


def _complete(model: ModelProto, *, converted: bool) -> ModelProto:
    """Return the valid model with the type and shape of every value, ``converted`` to our opset where it is older."""
    try:
        with under_test():
            onnx.checker.check_model(model)
            if converted:
                model = _converted(model)
            # Strict: the importer believes the declared outputs, so that one which contradicts its graph must stop here.
            return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except onnx.checker.ValidationError as error:
        raise ActionFailed("the model is not valid ONNX", diagnostics=str(error)) from error
    except onnx.version_converter.ConvertError as error:
        raise ActionFailed(f"the model cannot be converted to opset {OPSET}", diagnostics=str(error)) from error
    except onnx.shape_inference.InferenceError as error:
        reason = re.split(r"\[\w+Error\] ", str(error).strip())[-1]
        raise ActionFailed(f"ONNX cannot infer types and shapes: {reason}", diagnostics=str(error)) from error


def _converted(model: ModelProto) -> ModelProto:
    """Return the model in our opset where it is older, and the conversion keeps the types of its inputs and outputs.

    torch-mlir's conversions ask for the version also of a model without any operator of ONNX's own domain.
    """
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if not versions:
        model.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    if not versions or min(versions) >= OPSET:
        return model
    converted = onnx.version_converter.convert_version(model, OPSET)
    return converted if _interface(converted) == _interface(model) else model


def _interface(model: ModelProto) -> list[tuple[api.Shape, str]]:
    return [_describe(each) for each in (*model.graph.input, *model.graph.output)]


def _arguments(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs that become arguments. Inputs with a value are constants to the importer."""
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]


def _check_inputs(inputs: Sequence[Tensor], arguments: Sequence[ValueInfoProto]) -> None:
    """Raise ActionFailed unless the model takes the workload's inputs."""
    if len(inputs) != len(arguments):
        raise ActionFailed(f"declared {len(inputs)} inputs, the model takes {len(arguments)}")
    wrong = [
        f"input {tensor['name']}: declared {api.text_of(*want)}, the model takes {api.text_of(*got)}"
        for tensor, argument in zip(inputs, arguments, strict=True)
        if (want := (_open(tensor), tensor["dtype"])) != (got := _describe(argument))
    ]
    if wrong:
        raise ActionFailed(wrong[0], diagnostics="\n".join(wrong))


def _open(tensor: Tensor) -> api.Shape:
    return tuple(None if axis in tensor["dynamic"] else size for axis, size in enumerate(tensor["shape"]))


def _describe(value: ValueInfoProto) -> tuple[api.Shape, str]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        return (), f"{kind} (not a tensor of known rank)"
    tensor = value.type.tensor_type
    shape = tuple(each.dim_value if each.HasField("dim_value") else None for each in tensor.shape.dim)
    if tensor.elem_type not in DTYPES.values():
        return shape, str(TensorProto.DataType.Name(tensor.elem_type))
    return shape, api.name_of(DTYPES, tensor.elem_type)


def _to_mlir(model: ModelProto) -> str:
    # The importer names the function after the graph.
    model.graph.name = "main"
    context = Context()
    register_dialect(context)
    try:
        with under_test():
            info = onnx_importer.ModelInfo(model)
            module = info.create_module(context=context).operation
            onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
            module.verify()
    except (onnx_importer.OnnxImportError, MLIRError) as error:
        reason = str(error).partition("\n")[0]
        raise ActionFailed(
            f"torch-mlir's importer does not take the model: {reason}", diagnostics=str(error)
        ) from error
    return f"{module.get_asm(enable_debug_info=False).rstrip()}\n"
