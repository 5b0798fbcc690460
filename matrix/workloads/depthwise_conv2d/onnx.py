import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
depthwise_conv2d (
    float[{N}, {C}, {H}, {W}] x, float[{C}, 1, {KH}, {KW}] w
) => (float[{N}, {C}, {H}, {W}] y) {{
    y = Conv<group = {C}, pads = [1, 1, 1, 1]>(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
