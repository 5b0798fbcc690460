import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
layernorm (float[{M}, {N}] x, float[{N}] w, float[{N}] b) => (float[{M}, {N}] y) {{
    y = LayerNormalization <axis = -1, epsilon = 1e-5>(x, w, b)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
