import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_dilated_conv2d (
    float[{N}, {C}, {H}, {W}] x, float[{F}, {C}, {KH}, {KW}] w
) => (float[{N}, {F}, {OH}, {OW}] y) {{
    y = Conv <pads = [1, 1, 1, 1], dilations = [2, 3]>(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
