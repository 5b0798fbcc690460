import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
mlp (
    float[{B}, {I}] x, float[{I}, {H}] w1, float[{H}] b1, float[{H}, {O}] w2, float[{O}] b2
) => (float[{B}, {O}] y) {{
    hidden = Gemm(x, w1, b1)
    active = Relu(hidden)
    y = Gemm(active, w2, b2)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
