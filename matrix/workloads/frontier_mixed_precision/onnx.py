import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_mixed_precision (
    float16[{M}, {K}] x, float16[{K}, {H}] w1, float16[{H}, {O}] w2
) => (float[{M}, {O}] y) {{
    x_f32 = Cast <to = 1>(x)
    w1_f32 = Cast <to = 1>(w1)
    w2_f32 = Cast <to = 1>(w2)
    products = MatMul (x_f32, w1_f32)
    hidden = Cast <to = 16>(products)
    hidden_f32 = Cast <to = 1>(hidden)
    y = MatMul (hidden_f32, w2_f32)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
