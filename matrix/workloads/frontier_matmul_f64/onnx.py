import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_matmul_f64 (double[{M}, {K}] x, double[{K}, {N}] w) => (double[{M}, {N}] y) {{
    y = MatMul (x, w)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
