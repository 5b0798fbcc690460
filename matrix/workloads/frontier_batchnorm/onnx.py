import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_batchnorm (
    float[{N}, {C}, {H}, {W}] x, float[{C}] mean, float[{C}] variance, float[{C}] w, float[{C}] b
) => (float[{N}, {C}, {H}, {W}] y) {{
    y = BatchNormalization <epsilon = 1e-5>(x, w, b, mean, variance)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
