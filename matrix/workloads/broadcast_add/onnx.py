import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
broadcast_add (float[{B}, 1, {N}] x, float[{M}, 1] b) => (float[{B}, {M}, {N}] y) {{
    y = Add(x, b)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
