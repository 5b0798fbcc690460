import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
max_pool (float[{N}, {C}, {H}, {W}] x) => (float[{N}, {C}, {OH}, {OW}] y) {{
    y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
