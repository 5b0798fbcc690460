import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
matmul (float[{M}, {K}] x, float[{K}, {N}] w) => (float[{M}, {N}] y) {{
    y = MatMul(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
