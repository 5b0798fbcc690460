import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
argmax (float[{M}, {N}] x) => (int32[{M}] y) {{
    position = ArgMax <axis = -1, keepdims = 0>(x)
    y = Cast <to = {int32}>(position)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims, int32=onnx.TensorProto.INT32))
