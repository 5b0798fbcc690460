import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
matmul_i8 (int8[{M}, {K}] x, int8[{K}, {N}] w) => (int32[{M}, {N}] y) {{
    y = MatMulInteger(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
