import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_grouped_transposed_conv2d (
    float[{N}, {C}, {H}, {W}] x, float[{C}, {E}, {KH}, {KW}] w
) => (float[{N}, {F}, {OH}, {OW}] y) {{
    y = ConvTranspose <dilations = [2, 1], group = 2, pads = [1, 1, 1, 1], strides = [2, 3]>(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
