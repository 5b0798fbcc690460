import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
embedding (int32[{B}, {S}] i, float[{V}, {E}] w) => (float[{B}, {S}, {E}] y) {{
    y = Gather <axis = 0>(w, i)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
