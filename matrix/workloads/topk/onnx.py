import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
topk (float[{M}, {N}] x) => (float[{M}, {K}] values, int32[{M}, {K}] indices)
<int64[1] k = {{{K}}}>
{{
    values, positions = TopK <axis = -1>(x, k)
    indices = Cast <to = {int32}>(positions)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims, int32=onnx.TensorProto.INT32))
