import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21, "frontier": 1]>
frontier_custom_op (float[{M}, {N}] x) => (float[{M}, {N}] y) {{
    y = frontier.QuickGelu (x)
}}
<domain: "frontier", opset_import: ["": 21]>
QuickGelu (x) => (y) {{
    factor = Constant <value = float {{1.7}}> ()
    scaled = Mul (x, factor)
    share = Sigmoid (scaled)
    y = Mul (x, share)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
