import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
avg_pool (float[{N}, {C}, {H}, {W}] x) => (float[{N}, {C}, {OH}, {OW}] y) {{
    y = AveragePool<kernel_shape = [3, 3], strides = [2, 2]>(x)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
