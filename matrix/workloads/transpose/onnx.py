import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
transpose (float[{B}, {M}, {N}] x) => (float[{N}, {B}, {M}] y) {{
    y = Transpose<perm = [2, 0, 1]>(x)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
