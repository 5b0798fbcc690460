import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
matmul_bf16 (bfloat16[{M}, {K}] x, bfloat16[{K}, {N}] w) => (float[{M}, {N}] y) {{
    x_f32 = Cast<to = 1>(x)
    w_f32 = Cast<to = 1>(w)
    y = MatMul(x_f32, w_f32)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
