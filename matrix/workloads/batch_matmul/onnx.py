import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
batch_matmul (float[{B}, {M}, {K}] x, float[{B}, {K}, {N}] w) => (float[{B}, {M}, {N}] y) {{
    y = MatMul(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
