import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
conv2d (
    float[{N}, {C}, {H}, {W}] x, float[{F}, {C}, {KH}, {KW}] w, float[{F}] b
) => (float[{N}, {F}, {OH}, {OW}] y) {{
    y = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
