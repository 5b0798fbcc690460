import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
scatter_add (float[{V}, {E}] x, int32[{N}, {E}] i, float[{N}, {E}] u) => (float[{V}, {E}] y) {{
    y = ScatterElements <axis = 0, reduction = "add">(x, i, u)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
