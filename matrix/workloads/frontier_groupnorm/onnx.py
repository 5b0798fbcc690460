import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_groupnorm (float[{N}, {C}, {H}, {W}] x, float[{C}] w, float[{C}] b) => (float[{N}, {C}, {H}, {W}] y) {{
    y = GroupNormalization <epsilon = 1e-5, num_groups = {G}>(x, w, b)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
