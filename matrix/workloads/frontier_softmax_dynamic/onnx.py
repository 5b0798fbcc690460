import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_softmax_dynamic (float[M, N] x) => (float[M, N] y) {{
    y = Softmax <axis = -1>(x)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
