import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_conv3d (
    float[{N}, {C}, {D}, {H}, {W}] x, float[{F}, {C}, {K}, {K}, {K}] w
) => (float[{N}, {F}, {D}, {H}, {W}] y) {{
    y = Conv <pads = [1, 1, 1, 1, 1, 1]>(x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
