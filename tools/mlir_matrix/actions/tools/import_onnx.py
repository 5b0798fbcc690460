"""Import an ONNX model into the torch dialect with ONNX's operators, by torch-mlir's importer without torch."""

from __future__ import annotations

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

from mlir_matrix.actions.params import ImportParams, Tensor
from mlir_matrix.actions.runtime.contract import Action, ActionFailed, under_test
from mlir_matrix.actions.tools import import_common

DTYPES = {
    "f64": TensorProto.DOUBLE,
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "i16": TensorProto.INT16,
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}

#: torch-mlir's conversions know the operators best as they were in this version; older models are brought up to it.
OPSET = 21


def preload() -> None:
    """Do nothing: this module imports all; a context would start threads."""


def run(action: Action[ImportParams]) -> None:
    """Call the source's ``workload(dims)`` and write the graph of the model, as ``main``, to ``ir``."""
    source, dims = import_common.load(action.inputs["source"]), dict(action.params["dims"])
    with under_test(any_frame=True):
        model = source(dims)
    if not isinstance(model, ModelProto):
        raise ActionFailed(f"workload returned {type(model).__name__}, not an onnx.ModelProto")
    model = _complete(model)
    inputs, outputs = action.params["inputs"], action.params["outputs"]
    arguments = _arguments(model)
    _check_inputs(inputs, arguments)
    import_common.check_names("inputs", [each["name"] for each in inputs], [each.name for each in arguments])
    import_common.check_outputs(outputs, [_describe(result) for result in model.graph.output])
    import_common.check_names("outputs", [each["name"] for each in outputs], [each.name for each in model.graph.output])
    Path(action.outputs["ir"]).write_text(_to_mlir(model), encoding="utf-8")


def _complete(model: ModelProto) -> ModelProto:
    """Return the valid model at our opset, with the type and shape of every value."""
    try:
        with under_test():
            onnx.checker.check_model(model)
            if any(each.domain in ("", "ai.onnx") and each.version < OPSET for each in model.opset_import):
                model = onnx.version_converter.convert_version(model, OPSET)
            # Strict: the importer believes the declared outputs, so that one which contradicts its graph must stop here.
            return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except onnx.checker.ValidationError as error:
        raise ActionFailed("the model is not valid ONNX", diagnostics=str(error)) from error
    except onnx.version_converter.ConvertError as error:
        raise ActionFailed(f"the model cannot be converted to opset {OPSET}", diagnostics=str(error)) from error
    except onnx.shape_inference.InferenceError as error:
        raise ActionFailed("ONNX cannot infer the types and shapes of the graph", diagnostics=str(error)) from error


def _arguments(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs that become arguments. Inputs with a value are constants to the importer."""
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]


def _check_inputs(inputs: Sequence[Tensor], arguments: Sequence[ValueInfoProto]) -> None:
    """Raise ActionFailed unless the model takes the workload's inputs."""
    if len(inputs) != len(arguments):
        raise ActionFailed(f"declared {len(inputs)} inputs, the model takes {len(arguments)}")
    wrong = [
        f"input {tensor['name']}: declared {import_common.text_of(*want)}, the model takes {import_common.text_of(*got)}"
        for tensor, argument in zip(inputs, arguments, strict=True)
        if (want := (_open(tensor), tensor["dtype"])) != (got := _describe(argument))
    ]
    if wrong:
        raise ActionFailed(wrong[0], diagnostics="\n".join(wrong))


def _open(tensor: Tensor) -> import_common.Shape:
    return tuple(None if axis in tensor["dynamic"] else size for axis, size in enumerate(tensor["shape"]))


def _describe(value: ValueInfoProto) -> tuple[import_common.Shape, str]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        return (), f"{kind} (not a tensor of known rank)"
    tensor = value.type.tensor_type
    shape = tuple(each.dim_value if each.HasField("dim_value") else None for each in tensor.shape.dim)
    if tensor.elem_type not in DTYPES.values():
        return shape, str(TensorProto.DataType.Name(tensor.elem_type))
    return shape, import_common.name_of(DTYPES, tensor.elem_type)


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
        raise ActionFailed("torch-mlir's importer does not take the model", diagnostics=str(error)) from error
    return f"{module.get_asm(enable_debug_info=False).rstrip()}\n"
