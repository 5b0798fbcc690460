import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_grouped_conv2d (
    float[{N}, {C}, {H}, {W}] x, float[{F}, {D}, {KH}, {KW}] w
) => (float[{N}, {F}, {OH}, {OW}] y) {{
    y = Conv <group = {G}>(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
